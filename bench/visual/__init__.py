"""Benchmarks of the search for pages (docs/visual.md): `python -m bench.visual`."""
