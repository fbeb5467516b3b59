"""What a namespace may hand in: the team's limits bind the team alone, and never what is there already."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.admission import callers
from tests.chart.admission.callers import HOME, TEAM, Caller
from tests.chart.cluster import Cluster
from tests.chart.rendering import CHART

pytestmark = pytest.mark.apiserver


def ref(size: int) -> dict[str, Any]:
    return {"store": "gridfs", "key": "k", "sha256": "0" * 64, "bytes": size}


def attachment(size: int) -> dict[str, Any]:
    return {"name": "a.txt", "mediaType": "text/plain", "contentRef": ref(size)}


CRON = {"type": "ScheduledTask", "schedule": {"cron": "0 6 * * *"}}
CREATED = [
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


@pytest.mark.parametrize(("namespace", "fields", "refused"), CREATED, ids=lambda value: str(value)[:40])
def test_creation(namespace: str, fields: dict[str, Any], refused: str, tenant: Caller, admin: Caller) -> None:
    for caller in (tenant, admin):
        answer = caller.create(namespace, "pendingtasks", callers.task(**fields), dry=True)
        if refused:
            assert refused in callers.refusal(answer)
            assert answer.status_code == 422
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


def test_lower_limits_lock_nothing_that_is_there(release: Cluster, tenant: Caller, admin: Caller) -> None:
    """With the release's limits lowered a larger task of before is still prioritized, finished and taken away."""
    body = callers.task(content="x" * 200, attachments=[attachment(500)])
    callers.succeed(tenant.create(HOME, "pendingtasks", body))
    path = f"pendingtasks/{body['metadata']['name']}"
    reuse = ("upgrade", "jervis", str(CHART), "-n", HOME, "--reuse-values")
    lowered = "admission.limits.contentBytes=100,admission.limits.referencedBytes=100"
    release.helm(*reuse, "--set", lowered, "--set", "admission.limits.types={UserTask}")
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
        release.helm(*reuse, "--set", restored, "--set-json", "admission.limits.types=[]")
        callers.accepted_soon(lambda: tenant.create(HOME, "pendingtasks", callers.task(content="x" * 101), dry=True))
