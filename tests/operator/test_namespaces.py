"""Namespaces that are deleted, forbidden, join and leave: the others do not notice, and nothing is restarted."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest

from tests.operator import accounts
from tests.operator.conftest import Space
from tests.operator.kubelet import Kubelet, Work
from tests.operator.process import Operator, Start
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]


@pytest.fixture
def other(space: Space) -> Space:
    """Looked at after the release's own."""
    return Space(space.api, f"{space.name}-other")


@pytest.fixture
def account(space: Space) -> accounts.Account:
    made = accounts.Account(space.api, space.name)
    made.allow(space.name)
    return made


@pytest.fixture
def limited(account: accounts.Account, kubeconfig: Path, tmp_path: Path) -> Path:
    """A kubeconfig of the account."""
    return account.kubeconfig(kubeconfig, tmp_path / "limited")


def states(operator: Operator) -> dict[str, str]:
    """Of each namespace, by /readyz."""
    found: dict[str, str] = operator.get("/readyz").json()["namespaces"]
    return found


def done(space: Space, name: str) -> None:
    """A task that needs no run is submitted, and ends."""
    space.bring("Done", name, "INFO")


def test_a_forbidden_namespace_holds_back_no_other(
    space: Space, other: Space, account: accounts.Account, limited: Path, start: Start
) -> None:
    """At the start and later; and it is served as soon as it lets the operator in."""
    other.submit("waits", "INFO")
    with start([space.name, other.name], KUBECONFIG=limited, RESYNC_SECONDS=3) as operator:
        assert states(operator) == {space.name: "served", other.name: "forbidden"}
        done(space, "first")
        assert other.phase("waits") == "New"
        assert operator.metric("jervis_operator_namespace") == 2
        until(lambda: "NamespaceForbidden" in space.events("jervis-operator"), "an Event of the Lease says so")
        account.allow(other.name)
        until(lambda: other.phase("waits") == "Done", "its tasks are processed")
        until(lambda: states(operator)[other.name] == "served", "it is served")
        account.forbid(other.name)
        until(lambda: states(operator)[other.name] == "forbidden", "it is forbidden again")
        done(space, "second")
        assert operator.get("/healthz").status_code == 200
        assert operator.process.poll() is None


def test_liveness_outlasts_a_forbidden_namespace(
    space: Space, other: Space, account: accounts.Account, limited: Path, start: Start
) -> None:
    """Longer than the silence after which a watch counts as dead: its answers are 403, and it is not restarted."""
    account.allow(other.name)
    with start([space.name, other.name], KUBECONFIG=limited, RESYNC_SECONDS=3, WATCH_SILENCE_SECONDS=20) as operator:
        accounts.end(space.api, other.name)
        until(lambda: states(operator)[other.name] != "served", "the namespace is gone")
        gone = time.monotonic()
        problems: list[str] = []
        while time.monotonic() < gone + 30:
            problems += operator.get("/healthz").json()["problems"]
            time.sleep(0.2)
        assert problems == []
        done(space, "goes-on")


def test_a_namespace_that_is_deleted_and_comes_back(
    space: Space, other: Space, account: accounts.Account, limited: Path, start: Start
) -> None:
    """Its tasks go with it, those of its runs included; a new one of that name is served without a restart."""
    account.allow(other.name)
    with start([space.name, other.name], KUBECONFIG=limited, RESYNC_SECONDS=3) as operator:
        other.bring("ReadyForGpu", "asks", "ASK")
        done(space, "before")
        accounts.end(space.api, other.name)
        done(space, "meanwhile")
        until(lambda: states(operator)[other.name] in ("absent", "forbidden"), "the namespace is gone")
        until(lambda: operator.metric("jervis_operator_tasks") == 0, "its tasks are forgotten")
        again = Space(space.api, other.name)
        account.allow(other.name)
        done(again, "again")
        until(lambda: states(operator)[other.name] == "served", "it is served")
        assert operator.process.poll() is None


def test_the_run_of_a_deleted_namespace_frees_its_slot(
    space: Space, other: Space, account: accounts.Account, limited: Path, start: Start, work: Work
) -> None:
    """Long before a namespace that refuses would be given up: the deletion of its task was seen."""
    account.allow(other.name)
    with (
        Kubelet(space.api, space.name, work) as kubelet,
        start([space.name, other.name], slots=1, KUBECONFIG=limited, RESYNC_SECONDS=3) as operator,
    ):
        other.bring("Orchestrating", "runs")
        work.done.add("waits")
        space.bring("ReadyForGpu", "waits")
        accounts.end(space.api, other.name)
        until(lambda: space.phase("waits") == "Completed", "the slot is free, and it has run")
        assert kubelet.order == ["runs", "waits"]
        assert operator.process.poll() is None


def test_a_new_process_starts_while_a_namespace_is_gone(
    space: Space, start: Start, account: accounts.Account, limited: Path
) -> None:
    with start([space.name, "never-there"], KUBECONFIG=limited, RESYNC_SECONDS=3) as operator:
        assert states(operator)["never-there"] == "forbidden"
        done(space, "first")


def test_an_absent_namespace_is_told_from_a_forbidden_one(space: Space, start: Start) -> None:
    """Where the operator may read Namespaces. Lists of an absent one are empty, and no refusal."""
    with start([space.name, "never-there"]) as operator:
        assert states(operator) == {space.name: "served", "never-there": "absent"}
        done(space, "first")


def test_namespaces_join_and_leave_by_label(space: Space, other: Space, start: Start) -> None:
    """All tasks that are there already are taken in; after it has left, nothing is touched."""
    label = f"team-{uuid.uuid4().hex[:6]}"

    def mark(value: str | None) -> None:
        space.core.patch_namespace(other.name, {"metadata": {"labels": {label: value}}})

    other.submit("early", "INFO")
    with start([], NAMESPACE_SELECTOR=f"{label}=yes") as operator:
        done(space, "own")
        assert other.name not in states(operator)
        assert other.phase("early") == "New"
        mark("yes")
        until(lambda: other.phase("early") == "Done", "what was there is taken in")
        done(other, "later")
        other.bring("ReadyForGpu", "asks", "ASK")
        mark("no")
        until(lambda: other.name not in states(operator), "it has left")
        assert operator.metric("jervis_operator_tasks") == 0
        other.submit("after", "INFO")
        done(space, "own-again")
        assert other.phase("after") == "New"
        mark("yes")
        until(lambda: other.phase("after") == "Done", "and joins again")
        until(lambda: operator.metric("jervis_operator_tasks") == 1, "with the task that it had")
        mark(None)
        until(lambda: other.name not in states(operator), "a lost label is a leave, too")


def test_namespaces_by_pattern(space: Space, other: Space, start: Start) -> None:
    """kopf's own `-n PATTERN`: a namespace that matches is served as soon as it is there."""
    prefix = f"p-{uuid.uuid4().hex[:6]}"
    with start([space.name, f"{prefix}-*,!*-not"]) as operator:
        done(space, "own")
        assert set(states(operator)) == {space.name}
        fresh, out = Space(space.api, f"{prefix}-a"), Space(space.api, f"{prefix}-not")
        out.submit("never", "INFO")
        done(fresh, "first")
        accounts.end(space.api, fresh.name)
        until(lambda: set(states(operator)) == {space.name}, "it has left")
        done(space, "own-again")
        assert out.phase("never") == "New"
        assert operator.get("/healthz").status_code == 200
