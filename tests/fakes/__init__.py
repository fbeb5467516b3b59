"""Stand-ins for the world outside Jervis, each a process of its own.

Owns: simulators that speak a foreign protocol over a socket (`ollama`). Callers: fixtures of the tests, the benchmarks
and the demo. Never imports any package of Jervis: a stand-in that shares code with what it tests hides mistakes.
"""
