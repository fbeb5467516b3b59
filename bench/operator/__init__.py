"""Benchmarks of the operator against a real apiserver and etcd; `python -m bench.operator CASE` prints JSON."""
