"""The product's own processes with a real Ollama and small real models behind the router (`make test-real`).

What such a model knows is not tested: it knows next to nothing. Tested is that what it writes is read, that everything
ends, and that its GPU is free when it should be. `conftest` has the server (`ollama`), the router before it (`router`)
and the model's name (`MODEL`); a test of requests alone needs no data services.
"""
