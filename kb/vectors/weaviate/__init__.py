"""Vectors in Weaviate: one native tenant per client, project and group as filters.

Two collections per schema version and embedding model: chunks (searched by vector and by word) and sentences (vectors
only). The model is part of the collection's name, so vectors of two models never meet in one index; each object also
says its model and dimension. Collections are made on first use, and again if they are lost.

Weaviate's own hybrid query normalises scores within one tenant; a viewer's data lies in two (its client's and the
global one), so dense and lexical hits are fetched with raw scores and fused in `kb.retrieve.rank` by the same rule
(relativeScoreFusion).

Who may call me: `kb.__main__` builds a `Store`; all others know the port `kb.vectors.store` alone.
"""

from __future__ import annotations

from kb.vectors.weaviate import auditing, reading, writing


class Store(reading.Reading, writing.Writing, auditing.Auditing):
    """Implements `kb.vectors.store.Store` for the vectors of `embed_model`.

    `index` keeps installations apart that share one Weaviate; without `api_key` it is asked anonymously. `beside` is
    the model of a second index that another `Store` keeps up to date; those of all other models are only deleted from.
    """
