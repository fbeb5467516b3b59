"""Every schema that the product can send to a model, found by walking the code, and engines that compile them.

`walking` finds them, `foreign` has those of other servers, `instances` makes answers to each, `engines` are llguidance
and outlines-core. The tests here run without a server; `tests/llama_cpp` and `tests/ollama` compile the same schemas in
real ones, `bench.schemas` takes the times.
"""
