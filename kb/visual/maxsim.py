"""Late interaction: MaxSim, pooling of tokens, and vectors as bytes. Pure, numpy alone.

MaxSim of a question and a page is the sum, over the question's tokens, of each one's best cosine with a vector of the
page (Khattab and Zaharia 2020, "ColBERT", section 3.3; Faysse et al. 2024, "ColPali", arXiv 2407.01449).
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from kb.visual import model

_HEAD = struct.Struct("<II")


def unit(vectors: npt.ArrayLike) -> model.Array:
    """Rows of length 1; a row of zeros stays so."""
    made: model.Array = np.asarray(vectors, np.float32)
    length = np.linalg.norm(made, axis=-1, keepdims=True)
    return (made / np.where(length == 0, 1, length)).astype(np.float32)


def score(question: model.Array, page: model.Array) -> float:
    """MaxSim of a question [q, d] and a page [p, d]; 0 for a page without vectors."""
    if not len(page) or not len(question):
        return 0.0
    return float((question @ page.T).max(axis=1).sum())


def pool(vectors: model.Array, factor: int) -> model.Array:
    """[n, d] -> [max(n // factor, 1), d]: the means of the clusters that Ward's method makes of unit vectors, scaled to
    length 1 again.

    As ColPali's HierarchicalTokenPooler: hierarchical, by cosine, cut at n // factor clusters. Between unit vectors the
    squared distance that Ward's criterion takes is 2 - 2 cos. Clusters are found by chains of nearest neighbours
    (Murtagh 1983), in O(n^2) time and memory, and come in the order of their first token.
    """
    count = len(vectors)
    wanted = max(count // factor, 1)
    if factor <= 1 or count <= wanted:
        return vectors
    return means(vectors, clusters(vectors, wanted))


def clusters(vectors: model.Array, wanted: int) -> npt.NDArray[np.intp]:
    """The cluster of each of at least `wanted` unit vectors, [n]; there are `wanted`, numbered by their first
    vector."""
    return _cut(_merges(vectors), len(vectors), wanted)


def means(vectors: model.Array, labels: npt.NDArray[np.intp]) -> model.Array:
    """The means of clusters, scaled to length 1: [clusters, d]."""
    sums = np.zeros((int(labels.max()) + 1, vectors.shape[1]), np.float32)
    np.add.at(sums, labels, vectors)
    return unit(sums)


def _merges(vectors: model.Array) -> list[tuple[float, int, int]]:
    """(distance, cluster, cluster) of all merges; a cluster is named by one of its tokens."""
    count = len(vectors)
    # Half the squared distance: what Ward's criterion is for two single tokens.
    far = np.maximum(1.0 - vectors @ vectors.T, 0.0).astype(np.float64)
    np.fill_diagonal(far, np.inf)
    sizes = np.ones(count)
    alive = np.ones(count, bool)
    merges: list[tuple[float, int, int]] = []
    chain: list[int] = []
    while len(merges) < count - 1:
        if not chain:
            chain.append(int(np.argmax(alive)))
        while True:
            last = chain[-1]
            row = far[last]
            near = int(np.argmin(row))
            # Of equals the one before is taken, or the chain would go in a circle.
            if len(chain) > 1 and row[chain[-2]] <= row[near]:
                near = chain[-2]
                break
            chain.append(near)
        other = chain[-2]
        del chain[-2:]
        distance = float(far[last, other])
        merges.append((distance, last, other))
        # Lance and Williams 1967, for Ward's method.
        total = sizes + sizes[last] + sizes[other]
        joined = ((sizes[last] + sizes) * far[last] + (sizes[other] + sizes) * far[other] - sizes * distance) / total
        joined[~alive] = np.inf
        joined[[last, other]] = np.inf
        far[last], far[:, last] = joined, joined
        far[other], far[:, other] = np.inf, np.inf
        sizes[last] += sizes[other]
        alive[other] = False
    return merges


def _cut(merges: list[tuple[float, int, int]], count: int, wanted: int) -> npt.NDArray[np.intp]:
    """The cluster of each token, after the cheapest merges have left `wanted` clusters."""
    parents = list(range(count))

    def root(token: int) -> int:
        while parents[token] != token:
            parents[token] = parents[parents[token]]
            token = parents[token]
        return token

    for _, one, other in sorted(merges, key=lambda merge: merge[0])[: count - wanted]:
        parents[root(other)] = root(one)
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(root(token), len(numbers)) for token in range(count)], np.intp)


def pack(vectors: model.Array) -> bytes:
    """Vectors in a byte for each number and a scale for each vector; an error of 1/254 of its largest at most."""
    count, dimension = vectors.shape if vectors.ndim == 2 else (0, 0)
    if not count:
        return b""
    scales = (np.abs(vectors).max(axis=1) / 127).astype("<f4")
    scales[scales == 0] = 1
    numbers = np.rint(vectors / scales[:, None]).astype(np.int8)
    return b"".join((_HEAD.pack(count, dimension), scales.tobytes(), numbers.tobytes()))


def unpack(body: bytes) -> model.Array:
    """What `pack` made."""
    if not body:
        return np.zeros((0, 0), np.float32)
    count, dimension = _HEAD.unpack_from(body)
    scales = np.frombuffer(body, "<f4", count, _HEAD.size)
    numbers = np.frombuffer(body, np.int8, count * dimension, _HEAD.size + 4 * count)
    made: model.Array = numbers.reshape(count, dimension).astype(np.float32) * scales[:, None]
    return made


def patches(
    question: model.Array, page: model.Array, grid: model.Grid, most: int
) -> list[list[tuple[int, int, float]]]:
    """For each token of the question its best patches as (row, column, cosine), the best first, `most` at most."""
    seen = page[grid.first : grid.first + grid.size]
    if len(seen) < grid.size or not len(question):
        return []
    alike = question @ seen.T
    best = np.argsort(-alike, axis=1, kind="stable")[:, :most]
    return [
        [(int(at) // grid.columns, int(at) % grid.columns, float(alike[token, at])) for at in places]
        for token, places in enumerate(best)
    ]
