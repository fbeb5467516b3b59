"""A project's group is the one that its newest task or Connection names; the knowledge base is asked to follow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import prometheus_client
import pytest

from controllers import admission, metrics, projects
from crds import errors, scope
from kb import client

NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)


def seen(group: str, at: str = "2027-03-01T10:00:00Z", uid: str = "u1", **more: Any) -> dict[str, Any]:
    spec = {"clientId": "acme", "projectId": "shop", "groupId": group} | more
    return {"metadata": {"namespace": "ns", "name": uid, "uid": uid, "creationTimestamp": at}, "spec": spec}


class Service:
    """What the knowledge base would answer: the group of each project, and what goes wrong next."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str], str] = {}
        self.moves: list[str] = []
        self.trouble: list[Exception] = []

    async def move(self, project: scope.Scope) -> int:
        if self.trouble:
            raise self.trouble.pop()
        self.moves.append(project.group_id)
        before = self.groups.get((project.client_id, project.project_id))
        self.groups[project.client_id, project.project_id] = project.group_id
        return int(before != project.group_id)


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def registry() -> prometheus_client.CollectorRegistry:
    return prometheus_client.CollectorRegistry()


Make = Callable[..., projects.Projects]


@pytest.fixture
def make(service: Service, registry: prometheus_client.CollectorRegistry) -> Make:
    def made(admitted: admission.Admission | None = None) -> projects.Projects:
        measured = metrics.Metrics(registry)
        return projects.Projects(service.move, admitted=admitted, measured=measured, wall=lambda: NOW)

    return made


async def test_the_newest_names_the_group_in_whatever_order_they_are_read(make: Make, service: Service) -> None:
    kept = make()
    kept.task(seen("new", "2027-03-01T11:00:00Z", "u2"))
    kept.connection(seen("old", "2027-03-01T09:00:00Z", "u1"))
    kept.task(seen("older", "2027-03-01T08:00:00Z", "u0"))
    await kept.reconcile_once()
    assert service.moves == ["new"]
    await kept.reconcile_once()
    assert service.moves == ["new"], "nothing is due"


async def test_a_newer_one_moves_it(
    make: Make, service: Service, registry: prometheus_client.CollectorRegistry
) -> None:
    kept = make()
    kept.task(seen("old"))
    await kept.reconcile_once()
    kept.task(seen("new", "2027-03-01T11:00:00Z", "u2"))
    kept.task(seen("new", "2027-03-01T11:30:00Z", "u3"))
    await kept.reconcile_once()
    assert service.moves == ["old", "new"]
    assert registry.get_sample_value("jervis_operator_regroups_total", {"result": "moved"}) == 2


async def test_what_an_older_task_stores_afterwards_follows(make: Make, service: Service) -> None:
    kept = make()
    old = seen("old")
    kept.task(old)
    kept.task(seen("new", "2027-03-01T11:00:00Z", "u2"))
    await kept.reconcile_once()
    service.groups["acme", "shop"] = "old"  # its reading ended after the move
    kept.task(old)
    await kept.reconcile_once()
    assert service.groups["acme", "shop"] == "new"


async def test_of_those_of_one_second_the_last_heard_of_counts_and_goes_on_to(make: Make, service: Service) -> None:
    kept = make()
    for uid in ("u1", "u2"):
        kept.task(seen("a", uid=uid))
    kept.task(seen("b", uid="u0"))
    await kept.reconcile_once()
    for uid in ("u1", "u2"):  # their status changes
        kept.task(seen("a", uid=uid))
        await kept.reconcile_once()
    assert set(service.moves) == {"b"}


async def test_an_edited_connection_counts_from_then_on(make: Make, service: Service) -> None:
    kept = make()
    kept.connection(seen("old", "2027-03-01T08:00:00Z", "c"))
    kept.task(seen("old", "2027-03-01T09:00:00Z", "u2"))
    kept.connection(seen("new", "2027-03-01T08:00:00Z", "c"))
    kept.connection(seen("new", "2027-03-01T08:00:00Z", "c"))
    await kept.reconcile_once()
    assert service.moves == ["new"]


@pytest.mark.parametrize("missing", ["clientId", "projectId", "groupId"])
async def test_who_names_no_group_says_nothing(make: Make, service: Service, missing: str) -> None:
    kept = make()
    kept.task(seen("old") | {"spec": {**seen("old")["spec"], missing: ""}})
    await kept.reconcile_once()
    assert service.moves == []


async def test_a_namespace_moves_the_data_of_its_own_clients_alone(make: Make, service: Service) -> None:
    kept = make(admission.Admission(lambda name: {admission.CLIENTS: "beta"}))
    kept.task(seen("stolen"))
    kept.task(seen("retail", clientId="beta"))
    await kept.reconcile_once()
    assert service.groups == {("beta", "shop"): "retail"}


async def test_while_the_knowledge_base_is_away_it_stays_due(make: Make, service: Service) -> None:
    kept = make()
    kept.task(seen("new"))
    service.trouble = [client.Unavailable("it is away")]
    with pytest.raises(errors.Operational):
        await kept.reconcile_once()
    await kept.reconcile_once()
    assert service.moves == ["new"]


async def test_a_refusal_is_not_repeated_and_stops_no_other(make: Make, service: Service) -> None:
    kept = make()
    kept.task(seen("one"))
    kept.task(seen("two", projectId="till"))
    service.trouble = [client.Rejected("not in this scope", code="forbidden", status=403)]
    await kept.reconcile_once()
    assert service.moves == ["two"]
    await kept.reconcile_once()
    assert service.moves == ["two"]
