"""What every registry of aliases does."""

from __future__ import annotations

from dataclasses import replace

from crds import scope
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

    async def test_an_alias_holds_where_its_owner_says(self, names: registry.Registry) -> None:
        """Not in a sibling of the group, though that one sees what the project knows."""
        owners = {"acme": scopes.ACME, "shop": scopes.SHOP, "retail": scopes.RETAIL, "blog": scopes.BLOG}
        for name, owner in (owners | {"other": scopes.OTHER}).items():
            await names.put(alias(f"user:{name}", "user:real", owner))
        for viewer, expected in (
            (scopes.SHOP, {"user:acme", "user:retail", "user:shop"}),
            (scopes.TILL, {"user:acme", "user:retail"}),
            (scopes.RETAIL, {"user:acme", "user:retail"}),
            (scopes.BLOG, {"user:acme", "user:blog"}),
            (scopes.ACME, {"user:acme"}),
            (scopes.OTHER, {"user:other"}),
            (scopes.GLOBAL, set()),
        ):
            asked = [f"user:{name}" for name in (*owners, "other")]
            assert set(await names.resolve(viewer, asked)) == expected
            assert {one.alias for one in await names.listed(viewer)} == expected
            called = await names.named(viewer, [*owners, "other", "real"])
            assert called == {key.partition(":")[2]: ["user:real"] for key in expected}

    async def test_of_two_siblings_each_hears_its_own(self, names: registry.Registry) -> None:
        await names.put(alias("user:j", "user:b", scopes.SHOP))
        await names.put(alias("user:j", "user:a", scopes.TILL))
        assert await names.resolve(scopes.SHOP, ["user:j"]) == {"user:j": "user:b"}
        assert await names.resolve(scopes.TILL, ["user:j"]) == {"user:j": "user:a"}
        assert await names.named(scopes.SHOP, ["j"]) == {"j": ["user:b"]}

    async def test_related_are_those_that_hold_together_somewhere(self, names: registry.Registry) -> None:
        for owner in (scopes.ACME, scopes.RETAIL, scopes.SHOP, scopes.BLOG, scopes.OTHER):
            await names.put(alias("user:j", "user:real", owner))

        async def related(owner: scope.Scope, key: str) -> list[scope.Scope]:
            return sorted((one.owner for one in await names.related(owner, key)), key=str)

        mine = [scopes.ACME, scopes.RETAIL, scopes.SHOP, scopes.BLOG]
        assert await related(scopes.ACME, "user:real") == sorted(mine, key=str)
        assert await related(scopes.SHOP, "user:j") == sorted(mine[:3], key=str)
        assert await related(scopes.TILL, "user:j") == sorted(mine[:2], key=str)
        assert await related(scopes.ACME, "user:k") == []

    async def test_a_record_that_was_pointed_elsewhere_is_not_settled_by_its_forerunner(
        self, names: registry.Registry
    ) -> None:
        first = alias("user:j", "user:smith", state=registry.State.MERGING)
        again = replace(first, former=("user:doe",))
        await names.put(again)
        await names.settle(first)
        assert await names.pending() == [again]
        assert await names.find(scopes.ACME, "user:j") == again
        await names.settle(again)
        assert await names.pending() == []
        [settled] = await names.listed(scopes.ACME)
        assert (settled.state, settled.former) == (registry.State.MERGED, ())

    async def test_the_most_specific_counts(self, names: registry.Registry) -> None:
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
