"""The embedder that Ollama serves gives the vectors of the same model by another engine, of texts without accents.

Ollama leaves accents on letters (tokenizer/wordpiece.go), which the model's own tokenizer takes off.
"""

from __future__ import annotations

import httpx
import numpy as np

from hack.models import catalogue
from tests.fakes.ollama.embedding import minilm
from tests.real import serving

_TEXTS = [
    "The release of the router is planned for Friday the 13th of March 2026.",
    "Bob Svoboda tests the failover; orion-3 isn't full (yet).",
    "preauthorization",
    "def route(request: Request): return self.backends[0]",
    "a " * 150,
]


async def test_the_vectors_are_those_of_the_reference(ollama: serving.Ollama, http: httpx.AsyncClient) -> None:
    asked = {"model": catalogue.MINILM.name, "input": _TEXTS}
    answer = await http.post(f"{ollama.url}/api/embed", json=asked)
    assert answer.status_code == 200, answer.text
    ours = np.array(answer.json()["embeddings"])
    theirs, _ = minilm.Embedder().embed(_TEXTS)
    assert ours.shape == (len(_TEXTS), minilm.DIMENSIONS)
    assert (np.sum(ours * theirs, axis=1) > 0.999).all()
