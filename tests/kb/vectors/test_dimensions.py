"""A model whose vectors are as long as those stored, one whose are not, and one that is away."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from crds import scope
from crds.priority import Priority
from kb import errors
from kb.vectors import dimensions, model
from tests.kb import memory

_OWNER = scope.Scope(client_id="c")


class Sized:
    """Vectors of `size` numbers, after `away` calls that fail."""

    def __init__(self, size: int, away: int = 0) -> None:
        self.size, self.away, self.calls = size, away, 0

    @property
    def name(self) -> str:
        return "sized"

    async def embed(self, texts: Sequence[str], urgency: Priority) -> list[model.Vector]:
        self.calls += 1
        if self.calls <= self.away:
            raise errors.Away("router", "it is away")
        return [[1.0] * self.size for _ in texts]


async def stored(size: int) -> memory.Vectors:
    store = memory.Vectors()
    chunk = model.Chunk("id", "d", "urn", "note", "", "", "text", 0, 0, 4, "", ())
    await store.put(_OWNER, [(chunk, [1.0] * size)], [])
    return store


async def test_an_empty_index_asks_no_model() -> None:
    embedder = Sized(3)
    compared = dimensions.Dimensions([(memory.Vectors(), embedder)])
    await compared.run(interval=1)
    await compared.ready()
    assert embedder.calls == 0


async def test_vectors_of_another_length_are_named_with_setting_and_remedy() -> None:
    compared = dimensions.Dimensions([(await stored(3), Sized(3)), (await stored(4), Sized(3))])
    with pytest.raises(errors.Unconfigured, match="JERVIS_KB_EMBED_MODEL") as raised:
        await compared.compare()
    assert raised.value.field == "embedModel"
    with pytest.raises(errors.Unconfigured, match="vectors of 3 numbers, and its index holds vectors of 4"):
        await compared.ready()


async def test_it_asks_until_all_are_alike() -> None:
    """First the model is away, then it is another one, and then it has been put right."""
    embedder = Sized(4, away=2)
    pauses: list[float] = []
    compared = dimensions.Dimensions([(await stored(3), embedder)], sleep=lambda seconds: pause(seconds))

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        # One that refuses for ever would be asked for ever.
        assert len(pauses) < 10
        if len(pauses) == 3:
            with pytest.raises(errors.Unconfigured):
                await compared.ready()
            embedder.size = 3

    await compared.run(interval=7)
    await compared.ready()
    assert pauses == [7, 7, 7]
    assert embedder.calls == 4
