"""What every `kb.ingest.document_locks.Port` does.

A test class inherits these and gives the fixtures `port` and `other`.
"""

from __future__ import annotations

import asyncio

import pytest

from kb.ingest import document_locks


class TurnsContract:
    """The fixture `other` gives another owner of the same keys: another process, or the same one again."""

    async def test_one_owner_at_a_time(self, port: document_locks.Port, other: document_locks.Port) -> None:
        inside = most = 0

        async def work(mine: document_locks.Port) -> None:
            nonlocal inside, most
            async with mine.take("d") as turn:
                turn.check()
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(work(one) for one in (port, other) * 5))
        assert most == 1

    async def test_other_keys_do_not_wait(self, port: document_locks.Port, other: document_locks.Port) -> None:
        async with port.take("a"), other.take("b"), port.take("c") as last:
            last.check()

    async def test_an_attempt_does_not_wait(self, port: document_locks.Port, other: document_locks.Port) -> None:
        async with port.attempt("d") as first:
            assert first is not None
            async with other.attempt("d") as second:
                assert second is None
        async with other.attempt("d") as third:
            assert third is not None

    async def test_what_failed_leaves_the_key_free(self, port: document_locks.Port, other: document_locks.Port) -> None:
        with pytest.raises(ValueError, match="broken"):
            async with port.take("d"):
                raise ValueError("broken")
        async with other.attempt("d") as turn:
            assert turn is not None

    async def test_taken_is_what_this_process_works_on(self, port: document_locks.Port) -> None:
        async with port.take("d"):
            assert port.taken("d")
            assert not port.taken("e")
        assert not port.taken("d")

    async def test_owned_is_what_any_process_works_on(
        self, port: document_locks.Port, other: document_locks.Port
    ) -> None:
        async with port.take("a"), other.take("b"):
            assert await port.owned(["a", "b", "c"]) == await other.owned(["a", "b", "c"]) == {"a", "b"}
        assert await other.owned(["a", "b"]) == set()

    async def test_fences_never_fall(self, port: document_locks.Port, other: document_locks.Port) -> None:
        fences: list[int] = []
        for owner in (port, other, port, port, other):
            async with owner.take("d") as turn:
                fences.append(turn.fence)
        assert fences == sorted(fences)
