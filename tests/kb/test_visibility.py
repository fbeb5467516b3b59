"""The rule of who sees what, against the table of seed 001 written out."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from weaviate.collections.classes import filters as weaviate_filters

from crds import access, scope
from kb import api, identity, mongo, selection, visibility
from kb.graph import codec
from kb.vectors import model, record
from kb.vectors.weaviate import filters
from tests.fakes.arango import language, values
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
    viewers = ("global", "acme", "shop", "till", "blog", "retail", "other")
    assert {name for name in viewers if visibility.sees(getattr(scopes, name.upper()), owner)} == seen_by


@given(viewer=scopes.ANY, owner=scopes.ANY)
def test_laws(viewer: scope.Scope, owner: scope.Scope) -> None:
    assert visibility.sees(owner, owner)
    if visibility.sees(viewer, owner):
        assert owner.client_id in visibility.clients(viewer)
        assert owner.is_global or owner.client_id == viewer.client_id


_KEYS = (
    st.sampled_from(["", "=", ".", "a", access.METADATA, f"{access.METADATA}=public", f".{access.METADATA}"])
    | st.text()
)
_VALUES = st.sampled_from(["public", "user:eve@example.com", "=public"])
_METADATA = st.dictionaries(
    _KEYS,
    st.recursive(_VALUES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_KEYS, inner, max_size=2)),
    max_size=3,
)


@given(metadata=_METADATA)
def test_no_metadata_of_a_sender_says_who_may_see_its_document(metadata: dict[str, Any]) -> None:
    try:
        asked = api.IngestRequest.model_validate(
            {
                "scope": scopes.SHOP.model_dump(),
                "sourceUrn": "a::b",
                "kind": "email",
                "content": "x",
                "metadata": metadata,
            }
        )
    except ValueError:
        assert access.METADATA in metadata
        return
    restricted = {**asked.metadata, access.METADATA: ["user:boss@example.com"]}
    for stored, expected in (
        (asked.metadata, access.UNKNOWN),
        (restricted, access.restricted({"user:boss@example.com"})),
    ):
        labels = selection.labels(stored)
        assert visibility.in_labels(labels) == expected
        stranger = scope.Viewer(**scopes.SHOP.model_dump(), principals=("user:eve@example.com",))
        assert not visibility.shows(stranger, labels)


def test_what_a_document_is_chosen_by_is_one_key_and_one_value() -> None:
    given: list[dict[str, Any]] = [
        {"a": "b=c"},
        {"a=b": "c"},
        {"": {"a": "b=c"}},
        {"a\\": "b=c"},
        {"a\\=b": "c"},
        {"=": "c"},
    ]
    labels = [selection.labels(one) for one in given]
    assert len({one for each in labels for one in each}) == len(given)
    assert selection.labels({"build": {"branch": "main"}}) == ("build.branch=main",)


def test_what_was_stored_before_is_closed_where_it_says_two_things_and_is_written_again() -> None:
    """Until 2026-11 a key within an empty one stood for the knowledge base's own."""
    forged = (f"{access.METADATA}=public", f"{access.METADATA}=user:boss@example.com")
    assert visibility.in_labels(forged) == access.restricted({"user:boss@example.com"})
    assert visibility.in_labels(forged[:1]) == access.PUBLIC

    def revision(metadata: dict[str, Any]) -> str:
        text = json.dumps(metadata)
        facts = [scopes.SHOP.group_id, "email", "", "", 0, 0, {"metadata": text}]
        before = identity.digest(json.dumps(facts))[:16]
        chunk = model.Chunk("c", "d", "a::b", "email", "", "", "text", 0, 0, 4, "", (), text)
        return "as before" if chunk.revision(scopes.SHOP) == before else "another"

    assert [revision(one) for one in ({"a": "b"}, {"a": {"b": ["c"]}}, {"a.b": "c=d"})] == ["as before"] * 3
    assert [revision(one) for one in ({"": {"a": "b"}}, {"x": [{"a=b": 1}]}, {"a\\b": 1})] == ["another"] * 3


def test_nodes_are_found_by_names_that_labels_escape() -> None:
    for name in ("plain", "CORP\\user", "a=b", "odd\\=", 'quote"'):
        [label] = selection.labels({name: "x"})
        [fragment] = codec.fragments(((label,),))
        assert fragment in json.dumps({name: "x"}, ensure_ascii=False)


def test_a_regrouped_project_keeps_its_own_data() -> None:
    assert visibility.sees(scopes.make("acme", "shop", "wholesale"), scopes.SHOP)


@given(owner=scopes.ANY, where=scopes.ANY)
def test_what_is_laid_down_holds_for_the_owner_and_what_lies_in_it(owner: scope.Scope, where: scope.Scope) -> None:
    """By the table of the owners: global, client, group, project."""
    holds = visibility.governs(owner, where)
    if holds:
        assert visibility.sees(where, owner)
    if owner.project_id and where.project_id != owner.project_id:
        assert not holds
    if owner == where:
        assert holds


EVERY = [
    scopes.GLOBAL,
    *(scopes.make(*names) for names in itertools.product(("a", "b"), ("", "p", "q"), ("", "g", "h"))),
]


def by_sql(viewer: scope.Scope, owner: scope.Scope, condition: str) -> bool:
    database = sqlite3.connect(":memory:")
    columns = (owner.client_id, owner.project_id, owner.group_id)
    mine = {"client": viewer.client_id, "project": viewer.project_id, "grp": viewer.group_id, "world": ""}
    given = {"a": columns[0], "b": columns[1], "c": columns[2], **mine}
    row = "SELECT 1 FROM (SELECT :a AS client, :b AS project, :c AS grp) d"
    return database.execute(f"{row} WHERE {condition}", given).fetchone() is not None


def by_aql(viewer: scope.Scope, owner: scope.Scope) -> bool:
    """As the store asks: in the collections of the clients in which a viewer's data can lie."""
    if owner.client_id not in visibility.clients(viewer):
        return False
    row = {"_key": "1", "projectId": owner.project_id, "groupId": owner.group_id}
    collection = values.Collection("c")
    collection.documents["1"] = row
    bound = {
        "@c": "c",
        "everything": not owner.client_id,
        "project": viewer.project_id,
        "group": viewer.group_id,
        "principals": None,
    }
    query = f"FOR x IN @@c FILTER {visibility.aql()} RETURN x._key"
    return language.run(query, bound, lambda name, write: collection) == ["1"]


def by_mongo(query: dict[str, Any], owner: scope.Scope) -> bool:
    """MongoDB's own reading of equality and $or."""
    row = mongo.names(owner)
    return all(
        any(by_mongo(one, owner) for one in wanted) if name == "$or" else row[name] == wanted
        for name, wanted in query.items()
    )


def by_weaviate(viewer: scope.Scope, owner: scope.Scope) -> bool:
    """As the store asks: in the tenants in which a viewer's data can lie, without a filter in the global one."""
    if owner.client_id not in visibility.clients(viewer):
        return False
    row = {"projectId": owner.project_id or record.NONE, "groupId": owner.group_id or record.NONE}

    def holds(one: Any) -> bool:
        if isinstance(one, weaviate_filters._FilterAnd):
            return all(map(holds, one.filters))
        if isinstance(one, weaviate_filters._FilterOr):
            return any(map(holds, one.filters))
        assert one.operator == weaviate_filters._Operator.EQUAL
        return bool(row[one.target] == one.value)

    return not owner.client_id or holds(filters.sees(viewer))


TRANSLATIONS: dict[str, Callable[[scope.Scope, scope.Scope], bool]] = {
    "sql": lambda viewer, owner: by_sql(viewer, owner, visibility.sql()),
    "sql over a joined row": lambda viewer, owner: by_sql(viewer, owner, visibility.sql("d.", ":world")),
    "aql": by_aql,
    "mongodb": lambda viewer, owner: by_mongo(mongo.visible(viewer), owner),
    "weaviate": by_weaviate,
}


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_every_translation_says_what_the_rule_says(name: str) -> None:
    for viewer, owner in itertools.product(EVERY, EVERY):
        assert TRANSLATIONS[name](viewer, owner) == visibility.sees(viewer, owner), (viewer, owner)


def test_rules_and_aliases_hold_in_mongodb_where_the_rule_says() -> None:
    for owner, where in itertools.product(EVERY, EVERY):
        assert by_mongo(mongo.governing(where), owner) == visibility.governs(owner, where), (owner, where)
