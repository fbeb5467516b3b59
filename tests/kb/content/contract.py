"""What every content store does. A test module subclasses `Contract` and gives the fixture `store`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from kb import errors, identity, visibility
from kb.content.store import Store
from tests.kb import scopes

LATER = datetime(2100, 1, 1, tzinfo=UTC)


class Contract:
    """The meaning of `kb.content.store.Store`."""

    async def test_what_goes_in_comes_out(self, store: Store) -> None:
        body = bytes(range(256)) * 3000  # more than one GridFS chunk
        reference = await store.save(scopes.SHOP, body, "application/pdf")
        assert (reference.bytes, reference.sha256) == (len(body), identity.digest_bytes(body))
        assert await store.load(scopes.SHOP, reference.key) == body

    async def test_the_same_bytes_of_an_owner_are_kept_once(self, store: Store) -> None:
        first = await store.save(scopes.SHOP, b"same", "text/plain")
        assert await store.save(scopes.SHOP, b"same", "text/plain") == first
        assert (await store.save(scopes.BLOG, b"same", "text/plain")).key != first.key

    async def test_the_same_upload_four_times_at_once(self, store: Store) -> None:
        body = b"x" * 600_000
        first, *others = await asyncio.gather(*(store.save(scopes.SHOP, body, "text/plain") for _ in range(4)))
        assert others == [first] * 3
        assert await store.load(scopes.SHOP, first.key) == body

    async def test_the_table_of_scopes(self, store: Store) -> None:
        owners = [scopes.GLOBAL, scopes.ACME, scopes.OTHER, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.RETAIL]
        keys = {(await store.save(owner, b"body", "text/plain")).key: owner for owner in owners}
        assert len(keys) == len(owners)
        for viewer in owners:
            for key, owner in keys.items():
                if visibility.sees(viewer, owner):
                    assert await store.load(viewer, key) == b"body"
                else:
                    with pytest.raises(errors.NotFound):
                        await store.load(viewer, key)

    async def test_an_unknown_key_is_not_found(self, store: Store) -> None:
        with pytest.raises(errors.NotFound):
            await store.load(scopes.SHOP, "no-such-key")

    async def test_a_projects_content_follows_it_into_its_group(self, store: Store) -> None:
        mine = await store.save(scopes.SHOP, b"body", "text/plain")
        other = await store.save(scopes.TILL, b"body", "text/plain")
        moved = scopes.make("acme", "shop", "wholesale")
        assert await store.regroup(moved) == 1
        assert await store.regroup(moved) == 0
        assert await store.load(scopes.make("acme", "bulk", "wholesale"), mine.key) == b"body"
        assert await store.load(scopes.SHOP, mine.key) == b"body"
        with pytest.raises(errors.NotFound):
            await store.load(scopes.TILL, mine.key)
        assert await store.load(scopes.RETAIL, other.key) == b"body"

    async def test_parts_of_a_document_are_its_own_and_go_with_it(self, store: Store) -> None:
        loose = await store.save(scopes.SHOP, b"page", "image/png")
        first = await store.save(scopes.SHOP, b"page", "image/png", part_of="one")
        assert await store.save(scopes.SHOP, b"page", "image/png", part_of="one") == first
        more = await store.save(scopes.SHOP, b"more", "image/png", part_of="one")
        other = await store.save(scopes.BLOG, b"page", "image/png", part_of="two")
        assert len({loose.key, first.key, more.key, other.key}) == 4
        assert await store.load(scopes.SHOP, first.key) == b"page"
        with pytest.raises(errors.NotFound):
            await store.load(scopes.BLOG, first.key)
        assert await store.parts("acme", before=LATER) == ["one", "two"]
        assert await store.parts("other", before=LATER) == []
        assert await store.part_clients() == ["acme"]
        assert await store.drop_parts("one", only=[other.key]) == 0
        assert await store.drop_parts("one", keep=[first.key]) == 1
        assert await store.load(scopes.SHOP, first.key) == b"page"
        assert await store.drop_parts("one") == 1
        assert await store.drop_parts("one") == 0
        assert await store.load(scopes.SHOP, loose.key) == await store.load(scopes.BLOG, other.key) == b"page"
        assert await store.parts("acme", before=LATER) == ["two"]
