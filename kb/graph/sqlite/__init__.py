"""The embedded graph store: one SQLite file, for a knowledge base on one machine.

Two tables carry the graph: `mentions` (node <- sentence) and `evidence` (edge <- sentence). Nodes and edges are the
distinct keys of these, so that taking a document's rows away leaves exactly what the others say. Versions that were
replaced are rows of the same tables in a partition of their own, as if they were another client's (decision 0059).

Who may call me: `kb.service.serving` builds a `Store`; all others know the port `kb.graph.store` alone.
"""

from __future__ import annotations

from kb.graph.sqlite import reading, upkeep, writing

__all__ = ["Store"]


class Store(reading.Reading, writing.Writing, upkeep.Upkeep):
    """Implements `kb.graph.store.Store` on one file."""
