"""Which data an erasure takes: one rule, as Python, as a filter of MongoDB and as SQL."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given

from crds import scope
from kb import errors, mongo, sqlite
from kb.erasure import closed
from tests.kb import scopes


@given(where=scopes.ANY, owner=scopes.ANY)
def test_the_rule_is_the_same_everywhere(where: scope.Scope, owner: scope.Scope) -> None:
    taken = where.covers(owner)
    names = mongo.names(owner)
    assert taken == all(names[name] == value for name, value in closed.query(where).items())
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE rows (client, project, grp)")
        connection.execute("INSERT INTO rows VALUES (?, ?, ?)", (owner.client_id, owner.project_id, owner.group_id))
        given_names = {"client": where.client_id, "project": where.project_id, "grp": where.group_id}
        [(count,)] = connection.execute(f"SELECT count(*) FROM rows WHERE {sqlite.ERASED}", given_names)
    connection.close()
    assert taken == bool(count)


@given(where=scopes.ANY, owner=scopes.ANY)
def test_nothing_of_others_is_taken(where: scope.Scope, owner: scope.Scope) -> None:
    if where.covers(owner):
        assert owner.client_id == where.client_id
        assert not where.project_id or owner.project_id == where.project_id


def test_a_closed_scope_takes_no_writes_until_it_is_open_again() -> None:
    shut = closed.Closed()
    shut.replace([scopes.SHOP])
    for owner in (scopes.SHOP, scopes.make("acme", "shop")):
        with pytest.raises(errors.Erasing) as caught:
            shut.check(owner)
        assert caught.value.retry_after == 10
    for owner in (scopes.ACME, scopes.BLOG, scopes.RETAIL, scopes.GLOBAL):
        shut.check(owner)
    shut.replace([])
    shut.check(scopes.SHOP)
