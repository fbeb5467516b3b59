"""Execution copies of a recurring task: names, manifests, and their idempotent creation."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

import kube
from controllers.pendingtask import decision, views
from controllers.pendingtask.observed import CopyHeld, CopyMade, NoCopy, Observation, Trouble, trouble
from crds import errors, labels, pendingtask, phases
from crds.pendingtask import Type
from crds.schedule import ConcurrencyPolicy
from kube import lease

_DROPPED = frozenset({"schedule", "suspend", "answers", "approval"})
"""Fields of the template itself, or of the questions of one run."""
_MOST = 220
_STAMP = "%Y%m%d%H%M"


def name(template: kube.Object, due: datetime) -> str:
    """`<template>-<uid8>-<YYYYMMDDHHMM>` in UTC: unique per template (also if its name is cut or reused) and run."""
    return _name(template["metadata"]["name"], template["metadata"]["uid"], due)


def _name(template: str, uid: str, due: datetime) -> str:
    return f"{template[:_MOST].rstrip('.-')}-{uid.replace('-', '')[:8]}-{due:{_STAMP}}"


def manifest(template: kube.Object, due: datetime) -> kube.Object:
    """The template's spec, due once. The template is the owner: its deletion deletes its copies."""
    meta = template["metadata"]
    spec: dict[str, Any] = {key: value for key, value in template["spec"].items() if key not in _DROPPED}
    if spec["type"] == Type.SCHEDULED.value:
        # This type requires a schedule: that of the copy is the time of the run.
        spec["schedule"] = {"at": decision.moment(due)}
    inherited = {key: value for key, value in (meta.get("labels") or {}).items() if key != labels.ARCHIVED}
    return {
        "apiVersion": template["apiVersion"],
        "kind": template["kind"],
        "metadata": {
            "name": name(template, due),
            "namespace": meta["namespace"],
            "labels": {**inherited, labels.TEMPLATE_UID: meta["uid"]},
            "annotations": {k: v for k, v in (meta.get("annotations") or {}).items() if k.startswith("jervis.dev/")},
            "ownerReferences": [
                {
                    "apiVersion": template["apiVersion"],
                    "kind": template["kind"],
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": spec,
    }


async def make(api: kube.Kube, task: pendingtask.PendingTask, due: datetime) -> Observation:
    """Create the copy for `due` unless it exists; raises `kube.NotFound` without the template."""
    template = await api.get(kube.TASKS, task.metadata.namespace, task.metadata.name)
    if template["metadata"]["uid"] != task.metadata.uid:
        raise kube.NotFound(f"the recurring task {task.metadata.name} was deleted and created again")
    body = manifest(template, due)
    try:
        holder = await _holder(api, task, body["metadata"]["name"])
        return CopyHeld(due, holder) if holder else await _create(api, template, body, due)
    except lease.Fenced:
        raise
    except errors.JervisError as error:
        # For example a quota, a policy or a busy apiserver: recorded in the template's condition and retried.
        return trouble(error)


async def latest(api: kube.Kube, task: pendingtask.PendingTask, most: datetime) -> CopyMade | NoCopy:
    """The copy of the latest run up to `most` that has one, recorded in the status or not."""
    found: datetime | None = None
    selector = f"{labels.TEMPLATE_UID}={task.metadata.uid}"
    async for raw in api.each(kube.TASKS, task.metadata.namespace, selector):
        due = _due(task, raw["metadata"]["name"])
        if due is None or due > most or views.owner_uid(raw) != task.metadata.uid:
            continue
        found = due if found is None else max(found, due)
    return NoCopy() if found is None else CopyMade(found, _name(task.metadata.name, task.metadata.uid, found))


def _due(task: pendingtask.PendingTask, copy: str) -> datetime | None:
    """The run of a copy of that name; None if the name is not that of a copy of this template."""
    try:
        due = datetime.strptime(copy.rpartition("-")[2], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
    return due if _name(task.metadata.name, task.metadata.uid, due) == copy else None


async def _create(api: kube.Kube, template: kube.Object, body: kube.Object, due: datetime) -> Observation:
    meta = body["metadata"]
    try:
        await api.create(kube.TASKS, meta["namespace"], body)
    except kube.AlreadyExists:
        if not await _exists(api, template, meta):
            return Trouble(
                f"a task named {meta['name']} exists and is not a copy of this one",
                operational=False,
                field="metadata.name",
                remedy="Delete or rename that task.",
            )
    except errors.Operational:
        # It may have been created all the same. At the next try it may be finished and gone, and a second one be made.
        with contextlib.suppress(kube.NotFound):
            if await _exists(api, template, meta):
                return CopyMade(due, meta["name"])
        raise
    return CopyMade(due, meta["name"])


async def _exists(api: kube.Kube, template: kube.Object, meta: kube.Object) -> bool:
    """Whether the task of that name is a copy of the template. Raises `kube.NotFound` without one."""
    found = await api.get(kube.TASKS, meta["namespace"], meta["name"])
    return bool(views.owner_uid(found) == template["metadata"]["uid"])


async def _holder(api: kube.Kube, task: pendingtask.PendingTask, wanted: str) -> str:
    """Name of an unfinished copy that forbids another one; "" without one, or if several may run."""
    plan = task.spec.schedule
    if plan is None or plan.concurrency_policy is not ConcurrencyPolicy.FORBID:
        return ""
    selector = f"{labels.TEMPLATE_UID}={task.metadata.uid}"
    async for raw in api.each(kube.TASKS, task.metadata.namespace, selector, fields=phases.UNFINISHED):
        if raw["metadata"]["name"] != wanted and not raw["metadata"].get("deletionTimestamp"):
            return str(raw["metadata"]["name"])
    return ""
