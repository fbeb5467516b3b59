"""The words of Ollama's HTTP interface: names, durations, request fields and response shapes.

Owns: parsing and building of JSON documents, native (`native`) and OpenAI-compatible (`openai`). Pure: no sockets, no
clock of its own. Callers: `server`. Source: Ollama's public API documentation, version 0.17.
"""
