"""Benchmarks of the router; `python -m bench.router.run` prints JSON."""
