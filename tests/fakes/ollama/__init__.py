"""A simulator of Ollama: its protocol, its queue and its memory, without a language model.

Owns: the wire shapes of `/api/*` and `/v1/*` (`protocol`), the rules by which Ollama loads, shares and unloads models
(`runner`), answers computed from the prompt's own text (`rules`), real sentence embeddings (`embedding`), the writing
in images (`tesseract`), faults and scripts that tests choose, and a journal of what was asked (`/simulator/*`).

Callers: `python -m tests.fakes.ollama` (demo, benchmarks), `process.running(...)` (pytest fixtures). Everything
talks to it over HTTP; nothing imports its insides except its own tests.

Never: pretends to be a model. The banner, `/api/version` and the `Server` header say that it is a simulator.
Root: `__main__`.
"""
