"""The rule of who sees what, against the table of seed 001 written out."""

from __future__ import annotations

import pytest
from hypothesis import given

from crds import scope
from kb import visibility
from tests.kb import scopes


@pytest.mark.parametrize(
    ("owner", "seen_by"),
    [
        (scopes.GLOBAL, {"global", "acme", "shop", "till", "blog", "retail", "other"}),
        (scopes.ACME, {"acme", "shop", "till", "blog", "retail"}),
        (scopes.RETAIL, {"shop", "till", "retail"}),
        (scopes.SHOP, {"shop", "till", "retail"}),
        (scopes.BLOG, {"blog"}),
        (scopes.OTHER, {"other"}),
    ],
)
def test_the_table(owner: scope.Scope, seen_by: set[str]) -> None:
    viewers = {
        "global": scopes.GLOBAL,
        "acme": scopes.ACME,
        "shop": scopes.SHOP,
        "till": scopes.TILL,
        "blog": scopes.BLOG,
        "retail": scopes.RETAIL,
        "other": scopes.OTHER,
    }
    assert {name for name, viewer in viewers.items() if visibility.sees(viewer, owner)} == seen_by


@given(viewer=scopes.ANY, owner=scopes.ANY)
def test_laws(viewer: scope.Scope, owner: scope.Scope) -> None:
    assert visibility.sees(owner, owner)
    if visibility.sees(viewer, owner):
        assert owner.client_id in visibility.clients(viewer)
        assert owner.is_global or owner.client_id == viewer.client_id


def test_a_regrouped_project_keeps_its_own_data() -> None:
    assert visibility.sees(scopes.make("acme", "shop", "wholesale"), scopes.SHOP)
