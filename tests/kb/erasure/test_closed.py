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


def test_one_of_several_processes_takes_no_writes_while_it_does_not_know_what_is_erased() -> None:
    reading = [100.0]
    shut = closed.Closed(lambda: reading[0], known_for=45.0)
    with pytest.raises(errors.Erasing, match="does not know"):
        shut.check(scopes.SHOP)
    shut.replace([scopes.BLOG], asked_at=100.0)
    shut.check(scopes.SHOP)
    reading[0] += 45
    with pytest.raises(errors.Erasing, match="does not know"), shut.entered(scopes.SHOP):
        pytest.fail("entered")
    shut.replace([], asked_at=145.0)
    shut.check(scopes.BLOG)


def test_what_is_under_way_is_known_by_its_scope() -> None:
    shut = closed.Closed()
    with shut.entered(scopes.SHOP), shut.entered(scopes.SHOP):
        assert [shut.quiet(one) for one in (scopes.SHOP, scopes.ACME, scopes.BLOG)] == [False, False, True]
    with pytest.raises(ValueError, match="broken"), shut.entered(scopes.SHOP):
        raise ValueError("broken")
    assert shut.quiet(scopes.SHOP)
