"""Fault injection: the operator keeps its promises while everything around it, and it itself, breaks.

Real: etcd, kube-apiserver, the operator's process, a MongoDB-wire server. Stands in: the nodes (`nodes`), the knowledge
base at the wire. Between the operator and its three partners stand doors (`http_door`, `mongo_door`) that spoil
requests; `record` keeps every version of every object straight from etcd, so that no outage leaves a gap, and
`invariants` judges that record afterwards.

`pytest tests/faults` is the short form; `python -m tests.faults` (make test-faults) the long one, with a JSON summary.
"""
