"""The client of the code graph: typed calls of the routes in `codegraph.routes`, over `clients.kb_transport`.

`kb.client.Client` gives both as `client.code` and `client.analyze`, as one service has the routes of both.
"""

from codegraph.client.code import CodeGraph, Read
from codegraph.client.joern_queries import JoernQueries

__all__ = ["CodeGraph", "JoernQueries", "Read"]
