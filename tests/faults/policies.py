"""The chart's policy about Jobs on a stage, bound to its namespace and to the account that its operator comes with."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from controllers.pendingtask import job
from hack.cluster import binaries, progress
from tests import waiting
from tests.chart.rendering import Chart

if TYPE_CHECKING:
    from tests.faults.stage import Stage

ADMINISTRATOR = "admin"
"""Whom the doors' certificate names."""
_PATHS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


async def enforce(on: Stage) -> None:
    """Return once a Job of a former leader is refused there. An operator must have led there before."""
    helm = await asyncio.to_thread(binaries.program, binaries.HELM, "helm", progress.Progress())
    values = ("--set", f"admission.extraWriters={{{ADMINISTRATOR}}}")
    for body in await asyncio.to_thread(Chart(helm).render, *values, namespace=on.api.namespace):
        if body["kind"] in _PATHS and body["metadata"]["name"].endswith(".jobs"):
            await on.api.install(f"/apis/{body['apiVersion']}/{_PATHS[body['kind']]}", body)
    await waiting.eventually(lambda: on.api.refuses("jobs", _former()), "the apiserver takes the policy up")


def _former() -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "one", "image": "fake"}]}
    meta = {"name": "former", "annotations": {job.EPOCH_ANNOTATION: "0"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": pod}}}
