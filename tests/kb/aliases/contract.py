"""What every registry of aliases does."""

from __future__ import annotations

from crds import scope
from kb import visibility
from kb.aliases import registry
from tests.kb import clock as clocks
from tests.kb import scopes


def alias(
    written: str, meant: str, owner: scope.Scope = scopes.ACME, state: registry.State = registry.State.MERGED
) -> registry.Alias:
    """An alias made at the tests' first moment."""
    area = meant.partition(":")[0]
    return registry.Alias(state, owner, written, meant, area, 0, None, clocks.Clock().now, "jana")


class Contract:
    """Subclasses give the fixture `names`."""

    async def test_only_what_the_owner_sees_resolves(self, names: registry.Registry) -> None:
        owners = [scopes.ACME, scopes.SHOP, scopes.RETAIL, scopes.BLOG, scopes.OTHER]
        for number, owner in enumerate(owners):
            await names.put(alias(f"user:a{number}", "user:real", owner))
        asked = [f"user:a{number}" for number in range(len(owners))]
        for viewer in (*owners, scopes.TILL):
            expected = {f"user:a{n}" for n, owner in enumerate(owners) if visibility.sees(viewer, owner)}
            assert set(await names.resolve(viewer, asked)) == expected
            assert {one.alias for one in await names.listed(viewer)} == expected

    async def test_the_most_specific_is_heard(self, names: registry.Registry) -> None:
        await names.put(alias("user:j", "user:client"))
        await names.put(alias("user:j", "user:group", scopes.RETAIL))
        assert await names.resolve(scopes.TILL, ["user:j"]) == {"user:j": "user:group"}
        await names.put(alias("user:j", "user:project", scopes.SHOP))
        assert await names.resolve(scopes.SHOP, ["user:j", "user:k"]) == {"user:j": "user:project"}
        assert await names.resolve(scopes.BLOG, ["user:j"]) == {"user:j": "user:client"}

    async def test_seen_is_counted(self, names: registry.Registry, clock: clocks.Clock) -> None:
        await names.put(alias("user:j", "user:real"))
        clock.advance(days=1)
        for _ in range(2):
            await names.seen(scopes.SHOP, ["user:j"])
        await names.seen(scopes.OTHER, ["user:j"])
        [one] = await names.listed(scopes.ACME)
        assert (one.seen_count, one.last_seen_at) == (2, clock())

    async def test_by_either_end(self, names: registry.Registry) -> None:
        await names.put(alias("user:b", "user:real"))
        await names.put(alias("user:a", "user:real"))
        await names.put(alias("user:c", "user:else"))
        assert [one.alias for one in await names.listed(scopes.ACME, key="user:real")] == ["user:a", "user:b"]
        assert [one.canonical for one in await names.listed(scopes.ACME, key="user:c")] == ["user:else"]
        assert len(await names.listed(scopes.ACME, limit=2)) == 2

    async def test_a_life(self, names: registry.Registry) -> None:
        merging = alias("user:j", "user:real", state=registry.State.MERGING)
        await names.put(merging)
        assert await names.resolve(scopes.ACME, ["user:j"]) == {"user:j": "user:real"}
        assert await names.pending() == [merging]
        await names.settle(merging)
        assert await names.pending() == []
        assert await names.retire(scopes.SHOP, "user:j") is None
        retiring = await names.retire(scopes.ACME, "user:j")
        assert retiring is not None
        assert retiring.state is registry.State.RETIRING
        assert await names.resolve(scopes.ACME, ["user:j"]) == {}
        assert await names.retire(scopes.ACME, "user:j") == retiring
        assert await names.pending() == [retiring]
        await names.settle(retiring)
        assert await names.listed(scopes.ACME) == []
        assert await names.retire(scopes.ACME, "user:j") is None
