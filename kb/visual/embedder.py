"""The port of a model that makes multi-vectors of pages and of questions, and where the patches of an image are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kb import errors
from kb.files import image
from kb.visual import maxsim, model


class Port(Protocol):
    """`served.Served` and `local.Local`. A model with one vector for a page gives arrays of one row.

    Raises `kb.errors.Away` or `Unconfigured`, which pass, and `kb.errors.Invalid` for an image that it does not take.
    """

    @property
    def name(self) -> str:
        """The model whose vectors are compared with each other."""
        ...

    async def embed_pages(self, images: Sequence[bytes]) -> list[model.Embedded]:
        """One array of unit vectors, [tokens, dimension], for each image, in order."""
        ...

    async def embed_query(self, text: str) -> model.Query:
        """Unit vectors of a question, [tokens, dimension]."""
        ...


@dataclass(frozen=True)
class Patches:
    """How a model cuts an image: `side` pixels of it, after it was scaled to whole patches and between `least` and
    `most` patches, are one token; the first one is token `first`. `side` 0: it is not known.

    As `smart_resize` of Qwen2-VL's image processor in transformers; ColQwen2.5 has 28 pixels and at most 768 patches,
    ColQwen3 32.
    """

    side: int = 0
    least: int = 4
    most: int = 768
    first: int = 4

    def grid(self, picture: bytes, tokens: int) -> model.Grid | None:
        """Of an image that gave so many vectors; None where the two do not fit. Raises `kb.errors.Invalid`."""
        if not self.side:
            return None
        _, width, height = image.measured(picture)
        rows, columns = self._cut(width, height)
        return model.Grid(rows, columns, self.first) if self.first + rows * columns <= tokens else None

    def _cut(self, width: int, height: int) -> tuple[int, int]:
        rows, columns = max(1, round(height / self.side)), max(1, round(width / self.side))
        ratio = height * width / self.side**2
        if rows * columns > self.most:
            scale = math.sqrt(ratio / self.most)
            return max(1, math.floor(height / scale / self.side)), max(1, math.floor(width / scale / self.side))
        if rows * columns < self.least:
            scale = math.sqrt(self.least / ratio)
            return math.ceil(height * scale / self.side), math.ceil(width * scale / self.side)
        return rows, columns


_READ = 2048
"""Of a question's vectors, the first ones: to put more of them into clusters takes seconds."""
_NAME_CHARS = 100


def bounded(question: model.Query, most: int) -> model.Query:
    """A question with `most` vectors at most. Those that are alike become one, named by what it stands for, so that
    the end of a long question counts as its beginning does; what stands behind the first 2,048 is not read."""
    if len(question.vectors) <= most:
        return question
    vectors = question.vectors[:_READ]
    labels = maxsim.clusters(vectors, most)
    if len(question.tokens) != len(question.vectors):
        return model.Query(maxsim.means(vectors, labels))
    names: list[dict[str, None]] = [{} for _ in range(most)]
    for label, token in zip(labels, question.tokens, strict=False):
        names[int(label)][token] = None
    return model.Query(maxsim.means(vectors, labels), tuple(" ".join(one)[:_NAME_CHARS] for one in names))


def checked(name: str, given: Any) -> model.Array:
    """What a model answered, as unit vectors; one flat vector is an array of one row. Raises `kb.errors.Unconfigured`
    for what are no vectors."""
    try:
        made = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        made = np.zeros((0, 0), np.float32)
    if made.ndim == 1:
        made = made[None, :]
    if made.ndim != 2 or 0 in made.shape or not np.isfinite(made).all():
        raise errors.Unconfigured(
            f"visual model {name!r} does not answer with vectors of one length",
            field="visualModel",
            remedy="Serve a model that embeds pages (ColQwen, ColPali, or one with a vector for a page).",
        )
    return maxsim.unit(made)
