"""What a namespace may hand in: the team's limits bind the team alone, and never what is there already; and whose data
it may name, how urgent that may be, and whether it may jump the line."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.chart.admission import callers
from tests.chart.admission.callers import HOME, MARKED, OUTSIDE, TEAM, TENANT, Caller
from tests.chart.cluster import Cluster
from tests.chart.rendering import CHART

pytestmark = pytest.mark.apiserver
UPGRADE = ("upgrade", "jervis", str(CHART), "-n", HOME, "--reuse-values")


def ref(size: int) -> dict[str, Any]:
    return {"store": "gridfs", "key": "k", "sha256": "0" * 64, "bytes": size}


def attachment(size: int) -> dict[str, Any]:
    return {"name": "a.txt", "mediaType": "text/plain", "contentRef": ref(size)}


CRON = {"type": "ScheduledTask", "schedule": {"cron": "0 6 * * *"}}
OWN = {"type": "EmailProcessing", "clientId": "tess"}
SIZES = [
    (TEAM, {"content": "x" * 64}, ""),
    (TEAM, {"content": "x" * 65}, "spec.content: 65 bytes are more than the 64 of namespace admission-team; store"),
    (TEAM, {"content": "á" * 33}, "spec.content: 66 bytes are more than the 64"),
    (HOME, {"content": "x" * 65}, ""),
    (HOME, {"content": "x" * 32768}, ""),
    (TEAM, CRON, ""),
    (TEAM, {"type": "EmailProcessing"}, "spec.type: EmailProcessing is not taken in namespace admission-team; use "
     "UserInputProcessing, ScheduledTask, or ask"),
    (HOME, {"type": "EmailProcessing"}, ""),
    (TEAM, {"contentRef": ref(1000)}, ""),
    (TEAM, {"contentRef": ref(1001)}, "spec.contentRef, spec.attachments: 1001 bytes together are more than the 1000"),
    (TEAM, {"contentRef": ref(600), "attachments": [attachment(200), attachment(200)]}, ""),
    (TEAM, {"attachments": [attachment(600), attachment(600)]}, "spec.attachments: 1200 bytes together are more"),
    (HOME, {"contentRef": ref(268435456), "attachments": [attachment(268435456)]}, ""),
]  # fmt: skip
WHOSE = [
    (TENANT, OWN, ""),
    (TENANT, {**OWN, "clientId": "shared"}, ""),
    (TENANT, {**OWN, "clientId": "victim"}, "spec.clientId: victim is not a client of namespace admission-tenant; use "
     "one of [tess, shared], or ask for it in the chart value admission.namespaces or the annotation"),
    (TENANT, {**OWN, "clientId": "tess2"}, "spec.clientId: tess2 is not a client"),
    (TENANT, {**OWN, "clientId": "Tess"}, "spec.clientId: Tess is not a client"),
    (HOME, {**OWN, "clientId": "victim"}, ""),
    (OUTSIDE, {**OWN, "clientId": "victim"}, ""),
    (TENANT, {**OWN, "mode": "Background"}, ""),
    (TENANT, {**OWN, "mode": "Foreground"}, "spec.mode: Foreground is not for namespace admission-tenant; use mode "
     "Background, or ask for it in the chart value admission.namespaces or the annotation jervis.dev/modes"),
    (TENANT, {**OWN, **CRON, "mode": "Foreground"}, "spec.mode: Foreground is not for namespace"),
    # A question is in the foreground whatever its mode says.
    (TENANT, {**OWN, "type": "UserInputProcessing"}, "spec.type: UserInputProcessing is always Foreground, which is "
     "not for namespace admission-tenant; use mode Background with another type, or ask for it"),
    (TENANT, {**OWN, "type": "UserInputProcessing", "mode": "Background"}, "is always Foreground"),
    (HOME, {**OWN, "mode": "Foreground"}, ""),
    (TENANT, {**OWN, "queuePosition": 1000}, ""),
    (TENANT, {**OWN, "queuePosition": 999}, "spec.queuePosition: 999 is not for namespace admission-tenant; use 1000 "
     "or more, or leave it out, or ask for it in the chart value admission.namespaces"),
    (TENANT, {**OWN, "queuePosition": 1}, "spec.queuePosition: 1 is not for namespace"),
    (HOME, {**OWN, "queuePosition": 1}, ""),
]  # fmt: skip


def permitting(tool: str, *targets: str, **more: Any) -> dict[str, Any]:
    return {**OWN, "permits": [{"tool": "createIssue"}, {"tool": tool, "targets": list(targets), **more}]}


BEYOND = "is more than namespace admission-tenant may permit (sendMail|mcp:crm.* at [*@example.com, acme/shop#*]; "
PERMITTED = [
    (HOME, permitting("sendMail", "*", mayShare=True), ""),
    (HOME, {**OWN, "permits": [{"tool": "sendMail", "targets": ["p" * 320] * 32}] * 32}, ""),
    (OUTSIDE, permitting("sendMail", "*", mayShare=True), ""),
    (TENANT, permitting("sendMail", "ann@example.com", "*@example.com", "b*@example.com", most=9), ""),
    (TENANT, permitting("mcp:crm.add_note", "acme/shop#1"), ""),
    (TENANT, permitting("createIssue", "acme/*", mayShare=True), ""),
    (TENANT, permitting("sendMail"), ""),
    (TENANT, {**OWN, "permits": []}, ""),
    (TENANT, permitting("sendMail", "*"), f"spec.permits: sendMail at [*] {BEYOND}"),
    (TENANT, permitting("sendMail", "ann@example.com", "eve@evil.example"), BEYOND + "createIssue at [*] with mayShare"
     "); leave it out and approve what waits, or ask for it in the chart value admission.namespaces"),
    # A dot, and a star within, are no letters of their own.
    (TENANT, permitting("sendMail", "ann@exampleXcom"), BEYOND),
    (TENANT, permitting("sendMail", "ann@example.com*"), BEYOND),
    (TENANT, permitting("sendMail", "*@example.*"), BEYOND),
    (TENANT, permitting("sendMail", "a@example.com", mayShare=True), "sendMail at [a@example.com] with mayShare is"),
    (TENANT, permitting("mcp:crmx.add"), f"spec.permits: mcp:crmx.add at [] {BEYOND}"),
    (TENANT, permitting("editPage", "7"), BEYOND),
    (TEAM, {"permits": [{"tool": "sendMail"}]}, "is more than namespace admission-team may permit (nothing); leave it"),
]  # fmt: skip
CREATED = [*((422, *case) for case in SIZES), *((403, *case) for case in (*WHOSE, *PERMITTED))]
"""The code of a refusal, namespace, fields of the spec, and the words of the refusal."""


@pytest.mark.parametrize(("code", "namespace", "fields", "refused"), CREATED, ids=lambda value: str(value)[:60])
def test_creation(
    code: int, namespace: str, fields: dict[str, Any], refused: str, tenant: Caller, admin: Caller
) -> None:
    for caller in (tenant, admin):
        answer = caller.create(namespace, "pendingtasks", callers.task(**fields), dry=True)
        if refused:
            assert refused in callers.refusal(answer)
            assert answer.status_code == code
        else:
            callers.succeed(answer)


def test_an_update_is_measured_when_it_brings_something(tenant: Caller) -> None:
    body = callers.task(content="short")
    callers.succeed(tenant.create(TEAM, "pendingtasks", body))
    path = f"pendingtasks/{body['metadata']['name']}"
    assert "spec.content: 65 bytes" in callers.refusal(tenant.patch(TEAM, path, {"spec": {"content": "x" * 65}}))
    assert "1001 bytes" in callers.refusal(
        tenant.patch(TEAM, path, {"spec": {"content": None, "contentRef": ref(1001)}})
    )


def test_permits_are_measured_when_they_are_changed(tenant: Caller, admin: Caller) -> None:
    body = callers.task(**permitting("sendMail", "ann@example.com"))
    callers.succeed(tenant.create(TENANT, "pendingtasks", body))
    path = f"pendingtasks/{body['metadata']['name']}"
    wider = {"spec": {"permits": [{"tool": "sendMail", "targets": ["*"]}]}}
    for caller in (tenant, admin):
        assert BEYOND in callers.refusal(caller.patch(TENANT, path, wider))
    callers.succeed(tenant.patch(TENANT, path, {"spec": {"permits": None}}))


def test_lower_limits_lock_nothing_that_is_there(release: Cluster, tenant: Caller, admin: Caller) -> None:
    """With the release's limits lowered a larger task of before is still prioritized, finished and taken away."""
    body = callers.task(content="x" * 200, attachments=[attachment(500)])
    callers.succeed(tenant.create(HOME, "pendingtasks", body))
    path = f"pendingtasks/{body['metadata']['name']}"
    lowered = "admission.limits.contentBytes=100,admission.limits.referencedBytes=100"
    release.helm(*UPGRADE, "--set", lowered, "--set", "admission.limits.types={UserTask}")
    try:
        callers.refused_soon(lambda: tenant.create(HOME, "pendingtasks", callers.task(content="x" * 101), dry=True))
        callers.succeed(tenant.patch(HOME, path, {"spec": {"queuePosition": 1}}))
        callers.succeed(tenant.patch(HOME, path, {"metadata": {"labels": {"a": "b"}}}))
        message = callers.refusal(tenant.patch(HOME, path, {"spec": {"content": "x" * 199}}))
        assert "spec.content: 199 bytes are more than the 100 of namespace admission;" in message
        callers.succeed(tenant.patch(HOME, path, {"spec": {"content": "short"}}))
        callers.succeed(tenant.delete(HOME, path))
    finally:
        restored = "admission.limits.contentBytes=32768,admission.limits.referencedBytes=0"
        release.helm(*UPGRADE, "--set", restored, "--set-json", "admission.limits.types=[]")
        callers.accepted_soon(lambda: tenant.create(HOME, "pendingtasks", callers.task(content="x" * 101), dry=True))


def test_urgency_is_no_matter_of_an_edit_either(tenant: Caller) -> None:
    body = callers.task(**OWN)
    callers.succeed(tenant.create(TENANT, "pendingtasks", body))
    path = f"pendingtasks/{body['metadata']['name']}"
    for change, message in (
        ({"mode": "Foreground"}, "spec.mode: Foreground is not for namespace"),
        ({"queuePosition": 1}, "spec.queuePosition: 1 is not for namespace"),
    ):
        assert message in callers.refusal(tenant.patch(TENANT, path, {"spec": change}))
    other = tenant.patch(TENANT, path, {"spec": {"clientId": "shared"}})  # the CRD's own rule, before any policy
    assert (other.status_code, "is immutable" in other.text) == (422, True)
    callers.succeed(tenant.patch(TENANT, path, {"spec": {"queuePosition": 2000, "suspend": True}}))
    callers.succeed(tenant.patch(TENANT, path, {"spec": {"queuePosition": None}}))


def test_a_connection_brings_data_of_the_namespace_s_clients_alone(tenant: Caller) -> None:
    def connect(namespace: str, client: str) -> Any:
        body = callers.connection("https://git.example.com/x.git")
        body["spec"]["clientId"] = client
        return tenant.create(namespace, "connections", body, dry=True)

    callers.succeed(connect(TENANT, "tess"))
    callers.succeed(connect(HOME, "victim"))
    answer = connect(TENANT, "victim")
    assert "spec.clientId: victim is not a client of namespace admission-tenant; use one of [tess, shared]" in (
        callers.refusal(answer)
    )
    assert answer.status_code == 403


@pytest.fixture
def marked(release: Cluster, admin: Caller) -> Iterator[Cluster]:
    """A namespace that is in no list of the chart, with annotations of the cluster's administrator."""
    release.kubectl("annotate", "namespace", MARKED, "jervis.dev/clients=acme, beta", "jervis.dev/modes=Background")
    victim = callers.task(**OWN, mode="Background")
    callers.refused_soon(partial(admin.create, MARKED, "pendingtasks", victim, dry=True))
    yield release
    release.kubectl("annotate", "namespace", MARKED, "jervis.dev/clients-", "jervis.dev/modes-")
    callers.accepted_soon(partial(admin.create, MARKED, "pendingtasks", victim, dry=True))


def test_a_namespace_brings_its_limits_as_annotations(marked: Cluster, tenant: Caller) -> None:
    def create(**fields: Any) -> Any:
        return tenant.create(MARKED, "pendingtasks", callers.task(**{**OWN, "clientId": "acme", **fields}), dry=True)

    callers.succeed(create())
    callers.succeed(create(clientId="beta"))
    assert "use one of [acme, beta]" in callers.refusal(create(clientId="tess"))
    assert "spec.mode: Foreground is not for namespace" in callers.refusal(create(mode="Foreground"))
    connection = callers.connection("https://git.example.com/x.git")
    connection["spec"]["clientId"] = "tess"
    assert "use one of [acme, beta]" in callers.refusal(tenant.create(MARKED, "connections", connection, dry=True))
    marked.kubectl("annotate", "--overwrite", "namespace", MARKED, "jervis.dev/clients=")
    # An empty one is no wildcard.
    callers.refused_soon(create)


def test_a_default_binds_every_namespace_that_says_nothing_else(
    release: Cluster, tenant: Caller, admin: Caller
) -> None:
    limits = "admission.limits.clients={house},admission.limits.queuePosition=false,admission.limits.modes={Background}"
    release.helm(*UPGRADE, "--set", limits)
    try:
        callers.refused_soon(lambda: tenant.create(HOME, "pendingtasks", callers.task(**OWN), dry=True))
        house = {**OWN, "clientId": "house"}
        callers.succeed(tenant.create(HOME, "pendingtasks", callers.task(**house), dry=True))
        answer = tenant.create(HOME, "pendingtasks", callers.task(**house, queuePosition=1_000_000), dry=True)
        assert "spec.queuePosition: 1000000 is not for namespace admission; leave it out, or ask" in (
            callers.refusal(answer)
        )
        callers.succeed(tenant.create(TENANT, "pendingtasks", callers.task(**OWN, queuePosition=1000), dry=True))
        # The operator's copies of a recurring task are no exception.
        assert "spec.clientId" in callers.refusal(admin.create(HOME, "pendingtasks", callers.task(**OWN), dry=True))
    finally:
        release.helm(
            *UPGRADE, "--set-json", "admission.limits.clients=[]", "--set-json", "admission.limits.modes=[]",
            "--set", "admission.limits.queuePosition=true",
        )  # fmt: skip
        callers.accepted_soon(lambda: tenant.create(HOME, "pendingtasks", callers.task(**OWN), dry=True))
