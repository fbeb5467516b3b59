"""Tokens of the account of the history, which viewers may make: for the history, and for nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from contracts.api import history
from tests.chart.admission import callers
from tests.chart.admission.callers import HOME, OUTSIDE, TENANT, Caller
from tests.chart.cluster import Cluster

pytestmark = pytest.mark.apiserver
_VIEWER = "vera"


@pytest.fixture(scope="module", name="viewer")
def _viewer(release: Cluster, admin: Caller) -> Caller:
    # The role that is aggregated into `view`: no controller aggregates here.
    role = f"--clusterrole={HOME}-jervis-view"
    release.kubectl("create", "rolebinding", "vera", role, f"--user={_VIEWER}", "-n", TENANT)
    return Caller(admin.http, _VIEWER)


def token(caller: Caller, namespace: str, account: str, audiences: Sequence[str] | None) -> httpx.Response:
    """As `kubectl create token` asks for it."""
    spec: dict[str, Any] = {"expirationSeconds": 600} | ({} if audiences is None else {"audiences": audiences})
    return caller.http.post(
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
        json={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
        headers={"Impersonate-User": caller.user} if caller.user else {},
    )


@pytest.mark.parametrize("audiences", [None, [], ["jervis-router"], [history.AUDIENCE, "jervis-router"], [""]])
def test_a_viewer_gets_none_for_another_audience(viewer: Caller, audiences: list[str] | None) -> None:
    refused = token(viewer, TENANT, "jervis-history", audiences)
    assert "for history.jervis.dev alone" in callers.refusal(refused)


def test_a_viewer_gets_one_for_the_history_of_the_own_namespace(viewer: Caller) -> None:
    made = callers.succeed(token(viewer, TENANT, "jervis-history", [history.AUDIENCE]))["status"]["token"]
    payload = made.split(".")[1]
    said = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert (said["aud"], said["sub"]) == ([history.AUDIENCE], f"system:serviceaccount:{TENANT}:jervis-history")
    for namespace, account in ((HOME, "jervis-history"), (HOME, "jervis-operator"), (TENANT, "default")):
        assert token(viewer, namespace, account, [history.AUDIENCE]).status_code == 403


def test_an_administrator_does_not_either_and_other_accounts_are_as_they_were(release: Cluster, admin: Caller) -> None:
    callers.refusal(token(admin, HOME, "jervis-history", ["jervis-router"]))
    callers.succeed(token(admin, HOME, "jervis-kb", ["jervis-router"]))
    release.kubectl("create", "serviceaccount", "robot", "-n", OUTSIDE)
    callers.succeed(token(admin, OUTSIDE, "robot", None))
