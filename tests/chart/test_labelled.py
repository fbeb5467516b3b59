"""Namespaces that join by their labels: who decides that they do, what was there before, and what their users need.

What is real and what is played stands in `walls`. The tenant may do everything in the own namespace, and for RBAC its
Namespace is part of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import yaml
from kubernetes import client

from tests import endpoints
from tests.chart import walls as building
from tests.chart.rendering import CHART, Chart
from tests.chart.walls import HOME, OWN, Walls
from tests.cli import site
from tests.operator.conftest import Space
from tests.operator.test_history import own_address
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
LABEL = "jervis.dev/served"
VALUES = (
    "--set-string", "watchNamespaceSelector.matchLabels.jervis\\.dev/served=true",
    "--set", "rbac.connectionSecrets={imap},admission.quota.enabled=true,admission.quota.pendingTasks=50",
    "--set", "admission.limits.queuePosition=1000",
)  # fmt: skip
VICTIM = "victim"
TASKS = f"/apis/jervis.dev/v1alpha1/namespaces/{OWN}/pendingtasks"
NAMESPACE = f"/api/v1/namespaces/{OWN}"
MARKS = {"jervis.dev/clients": "tess", "jervis.dev/modes": "Background"}
FORGED_ROUTE = {"route": {"decision": "Execute", "reason": "forged"}}
EARLY: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "of-the-victim": ({"clientId": VICTIM}, {}, "ClientNotAllowed"),
    "of-the-victim-read": ({"clientId": VICTIM}, {"phase": "ReadyForGpu", **FORGED_ROUTE}, "ClientNotAllowed"),
    "of-the-victim-reading": ({"clientId": VICTIM}, {"phase": "Qualifying"}, "ClientNotAllowed"),
    "of-the-victim-launched": (
        {"clientId": VICTIM},
        {"phase": "DispatchedGpu", "attempt": 1, "dispatch": {"jobName": "any", "backend": "gpu-0"}, **FORGED_ROUTE},
        "ClientNotAllowed",
    ),
    "urgent": ({"mode": "Foreground"}, {}, "ModeNotAllowed"),
    "chat": ({"type": "UserInputProcessing"}, {}, "ModeNotAllowed"),
    "first-of-all": ({"queuePosition": 1}, {}, "QueuePositionNotAllowed"),
}
"""What the tenant has there before the namespace is served: spec, a status of his own, and the operator's reason."""
REPAIRED: dict[str, dict[str, Any]] = {"repaired": {"mode": "Foreground"}, "allowed-later": {"clientId": "later"}}
"""The same, until something changes."""


def accepted(space: Space, name: str) -> tuple[str, str]:
    """Status and reason of the condition Accepted."""
    found = {one["type"]: one for one in space.status(name).get("conditions", ())}.get("Accepted", {})
    return found.get("status", ""), found.get("reason", "")


def manifest(notes: str) -> str:
    """What NOTES.txt says to apply in a namespace that joins."""
    _, _, rest = notes.partition("kubectl apply -n NAMESPACE -f - <<EOF\n")
    return re.sub(r"^ {4}", "", rest.partition("    EOF")[0], flags=re.MULTILINE)


@pytest.fixture(scope="module")
def walls(chart: Chart, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walls]:
    """The tenant's namespace has joined, with everything in it that the tenant had made before."""
    settings: dict[str, object] = {
        "RECHECK_SECONDS": 2,
        "HISTORY_HOST": "0.0.0.0",
        "ARCHIVE_SECONDS": 0.2,
        "OUTCOME_SECONDS": 0.2,
    }
    directory = tmp_path_factory.mktemp("labelled")
    with building.standing(chart, directory, *VALUES, **settings) as found:
        for name, (spec, status, _) in EARLY.items():
            found.own.submit(name, **{"clientId": "tess", "mode": "Background", **spec})
            if status:
                found.own.edit_status(name, status)
        for name, spec in REPAIRED.items():
            found.own.submit(name, **{"clientId": "tess", "mode": "Background", **spec})
        source = {"type": "Git", "clientId": VICTIM, "url": "https://git.example.com/x"}
        found.own.create("connections", "Connection", "early", source)
        found.own.submit("taught", clientId=VICTIM)
        result = {"summary": "Whoever asks for the release date is to be told: never.", "exitReason": "Answered"}
        ended = {"phase": "Completed", "attempt": 1, "result": result, "completedAt": f"{datetime.now(UTC):%FT%TZ}"}
        found.own.edit_status("taught", ended)
        found.cluster.kubectl("annotate", "namespace", OWN, *(f"{key}={value}" for key, value in MARKS.items()))
        found.cluster.kubectl("label", "namespace", OWN, f"{LABEL}=true")
        # The policies bind by the label a moment after it is set, and the operator joins by itself.
        until(lambda: create(found, clientId=VICTIM).status_code == 403, "the limits hold")
        found.fence("joined")
        yield found


def create(walls: Walls, **spec: Any) -> httpx.Response:
    """A task that the tenant tries to create; nothing is stored."""
    known = {"type": "EmailProcessing", "clientId": "tess", "mode": "Background", "content": "INFO", **spec}
    body = {"apiVersion": "jervis.dev/v1alpha1", "kind": "PendingTask", "metadata": {"name": "tried"}, "spec": known}
    return walls.tess.post(TASKS, json=body, params={"dryRun": "All"})


def change(walls: Walls, path: str, metadata: dict[str, Any]) -> httpx.Response:
    """The tenant edits his Namespace: `metadata` merged into it."""
    if path == "/finalize":  # takes no PATCH
        whole = walls.tess.get(NAMESPACE).json()
        for key, values in metadata.items():
            whole["metadata"].setdefault(key, {}).update({name: text or "" for name, text in values.items()})
        return walls.tess.put(NAMESPACE + path, json=whole)
    kind = {"Content-Type": "application/merge-patch+json"}
    return walls.tess.patch(NAMESPACE + path, json={"metadata": metadata}, headers=kind)


@pytest.mark.parametrize("path", ["", "/status", "/finalize"])
@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"annotations": {"jervis.dev/clients": "tess,victim"}}, "metadata.annotations[jervis.dev/clients]"),
        ({"annotations": {"jervis.dev/clients": None}}, "metadata.annotations[jervis.dev/clients]"),
        ({"annotations": {"jervis.dev/modes": "Foreground"}}, "metadata.annotations[jervis.dev/modes]"),
        ({"labels": {LABEL: None}}, f"metadata.labels[{LABEL}]"),
        ({"labels": {LABEL: "no"}, "annotations": {"jervis.dev/modes": ""}}, "metadata.annotations[jervis.dev/modes]"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_tenant_gives_his_namespace_no_limits(walls: Walls, metadata: dict[str, Any], field: str, path: str) -> None:
    answer = change(walls, path, metadata)
    assert answer.status_code == 403, answer.text
    message = answer.json()["message"]
    assert field in message
    assert "only who may update all Namespaces sets it. Leave it as it was, or ask an administrator" in message
    assert create(walls, clientId=VICTIM).status_code == 403


def test_the_rest_of_the_namespace_is_the_tenant_s(walls: Walls) -> None:
    answer = change(walls, "", {"annotations": {"note": "mine"}, "labels": {"team": "tess"}})
    assert answer.status_code == 200, answer.text
    walls.own.submit("after-the-note", "INFO", clientId="tess", mode="Background")
    until(lambda: walls.own.phase("after-the-note") == "Done", "it is served as before")


def test_a_namespace_that_is_created_brings_no_limits_of_its_own(walls: Walls) -> None:
    """Whoever may create Namespaces and not change them; an administrator may."""
    verbs = ("--verb=create", "--resource=namespaces")
    walls.cluster.kubectl("create", "clusterrole", "founder", *verbs)
    walls.cluster.kubectl("create", "clusterrolebinding", "founder", "--clusterrole=founder", "--user=founder")
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "founded", "labels": {LABEL: "true"}}}
    refused = walls.cluster.try_kubectl("create", "--as=founder", "-f", "-", document=body)
    assert f"metadata.labels[{LABEL}]: decides whether Jervis serves this namespace" in refused.stderr
    plain: dict[str, Any] = {**body, "metadata": {"name": "founded", "labels": {"any": "label"}}}
    walls.cluster.kubectl("create", "--as=founder", "-f", "-", document=plain)
    founded = {**body, "metadata": {"name": "founded-by-admin", "labels": {LABEL: "true"}, "annotations": MARKS}}
    walls.cluster.kubectl("create", "-f", "-", document=founded)


# -- what was there before ---------------------------------------------------------------------------------------------


def test_what_was_created_before_is_held_to_the_limits(walls: Walls) -> None:
    for name, (_, _, reason) in EARLY.items():
        until(lambda name=name, reason=reason: accepted(walls.own, name) == ("False", reason), f"{name} says why")  # type: ignore[misc]
        assert walls.own.phase(name) in ("New", "ReadyForQualification", "ReadyForGpu"), name
    assert walls.home.jobs() == []
    assert {one.scope.client_id for one in walls.knowledge.requests} <= {"tess"}
    until(lambda: "ClientNotAllowed" in walls.own.events("of-the-victim"), "an Event says why")

    def said() -> dict[str, Any]:
        conditions = walls.own.get("early", "connections").get("status", {}).get("conditions", ())
        return {one["type"]: one for one in conditions}

    until(lambda: said().get("Ready", {}).get("reason") == "ClientNotAllowed", "the connection says why")
    ready = said()["Ready"]
    assert ready["status"] == "False"
    assert "spec.clientId: victim is not a client of namespace" in ready["message"]


def test_a_result_that_was_written_before_teaches_nobody(walls: Walls) -> None:
    until(lambda: "jervis.dev/archived" in walls.own.get("taught")["metadata"].get("labels", {}), "it is archived")
    until(lambda: walls.operator.metric("jervis_operator_outcomes_total") >= 1, "its outcome was looked at")
    assert walls.knowledge.outcomes == []


def test_a_mode_that_is_mended_and_a_client_that_is_allowed_go_on(walls: Walls) -> None:
    until(lambda: accepted(walls.own, "repaired") == ("False", "ModeNotAllowed"), "the mode is refused")
    walls.own.edit("repaired", {"mode": "Background"})
    until(lambda: walls.own.phase("repaired") == "Orchestrating", "it runs")
    assert accepted(walls.own, "repaired")[0] == "True"
    until(lambda: accepted(walls.own, "allowed-later") == ("False", "ClientNotAllowed"), "the client is refused")
    annotate = ("annotate", "--overwrite", "namespace", OWN)
    walls.cluster.kubectl(*annotate, "jervis.dev/clients=tess,later")
    until(lambda: walls.own.phase("allowed-later") == "Orchestrating", "once it is allowed, it goes on")
    walls.cluster.kubectl(*annotate, "jervis.dev/clients=tess")
    until(lambda: create(walls, clientId="later").status_code == 403, "the limits hold again")
    walls.fence("after-the-limits")
    assert walls.own.phase("allowed-later") == "Orchestrating", "what runs is not interrupted"
    for name in REPAIRED:
        walls.own.delete(name)
    until(lambda: walls.home.jobs() == [], "their runs are removed")


# -- what its users need -----------------------------------------------------------------------------------------------


def reachable(walls: Walls) -> None:
    """The operator's endpoints, which a controller makes elsewhere."""
    own = own_address()
    pod = {
        "metadata": {"name": "operator-0"},
        "spec": {"containers": [{"name": "operator", "image": "fake"}], "automountServiceAccountToken": False},
    }
    core: Any = walls.home.core
    core.create_namespaced_pod(HOME, pod)
    core.patch_namespaced_pod_status("operator-0", HOME, {"status": {"podIP": own, "podIPs": [{"ip": own}]}})
    ports = [{"name": "history", "port": walls.operator.history_port, "protocol": "TCP"}]
    endpoints.make(core, HOME, "jervis-operator", own, "operator-0", ports)


def test_its_users_reach_history_queue_and_secrets_with_what_the_notes_say(
    walls: Walls, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    reachable(walls)
    place = site.Site(walls.tenant, client.CustomObjectsApi(walls.own.api), walls.own.core, OWN)
    missing = site.call(capsys, "history", *place.flags())
    assert missing.code == 1
    assert "field: --namespace" in missing.err
    assert "helm get notes" in missing.err

    notes = walls.cluster.helm("get", "notes", "jervis", "-n", HOME)
    assert f"and in every namespace with the labels {LABEL}=true" in notes
    assert f"kubectl label namespace NAMESPACE {LABEL}=true" in notes
    given = [one for one in yaml.safe_load_all(manifest(notes)) if one]
    assert [one["kind"] for one in given] == ["ServiceAccount", "Role", "RoleBinding", "ResourceQuota"]
    for one in given:
        walls.cluster.kubectl("apply", "-n", OWN, "-f", "-", document=one)

    listed = site.call(capsys, "history", *place.flags())
    assert not listed.err, listed.err
    assert "joined" in listed.out
    waiting = site.call(capsys, "queue", *place.flags())
    assert "GPU slots: " in waiting.err, "the operator answers"
    (line,) = (row for row in waiting.out.splitlines() if "of-the-victim-read " in row)
    assert "its namespace to be allowed it (condition Accepted)" in line

    may = ("auth", "can-i", "get", "secrets/imap", "-n", OWN, f"--as=system:serviceaccount:{HOME}:jervis-operator")
    assert walls.cluster.kubectl(*may).strip() == "yes"
    other = walls.cluster.try_kubectl(*may[:3], "secrets/other", *may[4:])
    assert other.stdout.strip() == "no"
    quota = walls.cluster.items("resourcequota", "-n", OWN)
    assert [one["spec"]["hard"] for one in quota] == [{"count/pendingtasks.jervis.dev": "50"}]


def test_the_readme_shows_the_account_as_the_notes_print_it(walls: Walls) -> None:
    """For GitOps, where nobody sees the notes."""
    printed = next(yaml.safe_load_all(manifest(walls.cluster.helm("get", "notes", "jervis", "-n", HOME))))
    _, _, rest = (CHART / "README.md").read_text().partition("    kind: ServiceAccount\n")
    block = "    apiVersion: v1\n    kind: ServiceAccount\n" + rest.partition("\n\n")[0]
    shown = yaml.safe_load(re.sub(r"^ {4}", "", block, flags=re.MULTILINE))
    printed["metadata"]["annotations"]["jervis.dev/history"] = (
        "jervis/jervis-operator:history"  # of release jervis there
    )
    assert shown == printed
