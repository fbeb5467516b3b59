"""A stand-in for ArangoDB at its wire: enough of the HTTP API and of AQL to run every query of `kb.graph.aql`.

It is strict where the server is (a bound value that a query does not use, a collection that a transaction did not
declare) and it sorts texts otherwise than Python does, as the server's language does. It has no optimizer, no indexes
and no cluster: it says that a query means what it should, not that it is fast or that a server takes it.
"""
