"""Scopes for tests: a few that matter, and a strategy over a world small enough for collisions."""

from __future__ import annotations

from hypothesis import strategies as st

from crds import scope


def make(client: str = "", project: str = "", group: str = "") -> scope.Scope:
    """Shorthand."""
    return scope.Scope(client_id=client, project_id=project, group_id=group)


GLOBAL = make()
ACME = make("acme")
OTHER = make("other")
SHOP = make("acme", "shop", "retail")
TILL = make("acme", "till", "retail")
BLOG = make("acme", "blog")
RETAIL = make("acme", "", "retail")

ANY = st.one_of(
    st.just(GLOBAL),
    st.builds(make, st.sampled_from(["a", "b"]), st.sampled_from(["", "p", "q"]), st.sampled_from(["", "g", "h"])),
)
