"""The simulator's HTTP server: handlers, the wire that faults may cut, and the journal of what was asked.

Owns: aiohttp. Callers: `__main__` through `app.build`. Decides nothing about memory (`runner`) or answers (`rules`).
"""
