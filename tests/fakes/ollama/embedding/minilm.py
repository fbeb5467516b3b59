"""all-MiniLM-L6-v2: text to 384 numbers, from any thread. The heavy part (`session`) is imported at the first text."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tests.fakes.ollama.embedding import session

    Vectors = NDArray[np.float32]

DIMENSIONS = 384
MAX_TOKENS = 256


class Missing(RuntimeError):  # noqa: N818 -- named for what is wrong
    """The package with the weights is not installed."""


class Exceeds(ValueError):  # noqa: N818 -- named for what is wrong
    """A text has more tokens than may be read of one."""


class Embedder:
    """Loads on first use (about a second and 300 MB) and stays loaded. Thread-safe; one call runs at a time."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._session: session.Session | None = None

    def embed(self, texts: Sequence[str], limit: int | None = None) -> tuple[Vectors, int]:
        """Unit vectors [len(texts), 384] in the order of `texts`, and the number of tokens read (after truncation).

        Raises Exceeds when one of the texts has more than `limit` tokens, and Missing when the package with the weights
        is not installed.
        """
        with self._lock:
            if self._session is None:
                # Imported here: numpy and onnxruntime are most of a start, and most simulators never embed.
                from tests.fakes.ollama.embedding import session

                self._session = session.Session(self._threads, MAX_TOKENS)
            # A token has a character or more; two are the marks around the text.
            if limit is not None and self._session.longest([text for text in texts if len(text) > limit - 2]) > limit:
                raise Exceeds
            return self._session.embed(texts)


def narrow(vectors: Vectors, dimensions: int | None) -> Vectors:
    """The first `dimensions` numbers of each vector, of unit length again."""
    if dimensions is None or dimensions >= vectors.shape[1]:
        return vectors
    import numpy as np  # see Embedder.embed

    cut = vectors[:, :dimensions]
    return np.ascontiguousarray(cut / np.linalg.norm(cut, axis=1, keepdims=True))
