"""The production graph store: ArangoDB, with the three objects per client that seed 001 "ArangoDB Schema" names.

    c{client}_nodes   documents (`$document::<id>`) and entities, told apart by `type`
    c{client}_edges   `mentions` from a document to each entity it names (`structural`), and the relationships it states
    c{client}_graph   the named graph over both; the global scope is the client ""

and three called h{client}_... alike for the versions of the past (decision 0059), made when the first document is
replaced. The document `$schema` of the nodes says which version of this layout a client's objects have.

There is one edge document per relationship *and document*: it carries the project and group of its document, so that
every hop filters on the edge it crosses, and taking a document away takes exactly its own proof. Entities hold nothing
but their key and type. A replacement runs in one stream transaction.

python-arango is synchronous; every call runs in a thread.

Who may call me: `kb.__main__` builds a `Store`; all others know the port `kb.graph.store` alone.
"""

from __future__ import annotations

from kb.graph.arango import reading, upkeep, writing
from kb.graph.arango.connection import Cluster

__all__ = ["Cluster", "Store"]


class Store(reading.Reading, writing.Writing, upkeep.Upkeep):
    """Implements `kb.graph.store.Store` on one database."""
