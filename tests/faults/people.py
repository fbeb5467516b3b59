"""The users: they answer, approve, add messages at the worst moment, hold a task and let it go."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

from controllers.pendingtask import job
from crds.phases import Phase
from tests.faults import kinds
from tests.faults.cluster_api import ClusterApi
from tests.faults.kinds import Kind
from tests.faults.record import Version

FINALIZER = "example.com/keep"
"""Of another program: it holds a deleted task until its Job is gone. Every second one that is deleted has none."""


class People:
    """Reacts to versions of tasks; every reaction is one that a person may also make twice.

    `api` is that of the release's namespace, `tenant` that of the tenant's. Names of tasks differ across both.
    """

    def __init__(self, api: ClusterApi, tenant: ClusterApi) -> None:
        self._api, self._tenant = api, tenant
        self._tenants: set[str] = set()
        self._doing: dict[tuple[str, str], asyncio.Task[None]] = {}
        self.submitted: list[str] = []

    async def submit(self, name: str) -> None:
        """Create the task of that name."""
        body = {
            "apiVersion": "jervis.dev/v1alpha1",
            "kind": "PendingTask",
            "metadata": {"name": name, **({"finalizers": [FINALIZER]} if _kept(name) else {})},
            "spec": kinds.spec(name, datetime.now(UTC)),
        }
        if kinds.of_tenant(name):
            self._tenants.add(name)
        await self._of(name).create("pendingtasks", body)
        self.submitted.append(name)

    def heard(self, version: Version) -> None:
        """A new version of something."""
        if version.kind != "pendingtasks" or version.deleted:
            return
        if version.namespace == self._tenant.namespace:
            self._tenants.add(version.name)  # a copy of a recurring task
        what, status = kinds.kind(version.name), version.raw.get("status") or {}
        phase, asked = status.get("phase"), (status.get("phaseTimes") or {}).get(Phase.USER_TASK)
        if phase == Phase.USER_TASK and what is Kind.ASK:
            self._do(version, "answer", self._answer(version))
        elif phase == Phase.USER_TASK:
            self._do(version, f"approve {asked}", self._approve(version))
        elif phase == Phase.ORCHESTRATING and what is Kind.HELD:
            self._do(version, "hold", self._hold(version.name))
        elif phase == Phase.ORCHESTRATING and what is Kind.DROP:
            self._do(version, "drop", self._drop(version))

    async def talk(self, name: str, identity: str) -> None:
        """Add a message, which the apiserver takes once for an identity."""
        while True:
            task = await self._of(name).get("pendingtasks", name)
            if task is None:
                return
            messages = task["spec"].get("messages") or []
            if any(one["id"] == identity for one in messages):
                return
            version = {"resourceVersion": task["metadata"]["resourceVersion"]}
            added = [*messages, {"id": identity, "text": "And one more thing."}]
            if await self._of(name).patch("pendingtasks", name, {"metadata": version, "spec": {"messages": added}}):
                return

    async def close(self, seconds: float) -> list[str]:
        """Let what is under way end, and raise what went wrong in it; what they still wait for after that time."""
        try:
            await asyncio.wait_for(asyncio.gather(*self._doing.values()), seconds)
        except TimeoutError:
            return [
                f"the user of {uid} waits in vain: {what}"
                for (uid, what), one in self._doing.items()
                if one.cancelled()
            ]
        return []

    def _of(self, name: str) -> ClusterApi:
        """The namespace of that task."""
        return self._tenant if name in self._tenants else self._api

    def _do(self, version: Version, what: str, reaction: Coroutine[Any, Any, None]) -> None:
        if (version.uid, what) in self._doing:
            reaction.close()
            return
        self._doing[version.uid, what] = asyncio.create_task(reaction)

    async def _answer(self, version: Version) -> None:
        for _ in range(2):  # a double click
            answers = {"answers": [{"id": "q1", "text": "This."}]}
            await self._of(version.name).patch("pendingtasks", version.name, {"spec": answers})

    async def _approve(self, version: Version) -> None:
        status = version.raw["status"]
        asked = datetime.fromisoformat(status["phaseTimes"][Phase.USER_TASK].replace("Z", "+00:00"))
        identity = f"run-{status['attempt']}-{int(asked.timestamp())}"
        approval = {"verdict": "Approved", "requestId": identity, "author": "somebody"}
        await self._of(version.name).patch("pendingtasks", version.name, {"spec": {"approval": approval}})

    async def _hold(self, name: str) -> None:
        api = self._of(name)
        await api.patch("pendingtasks", name, {"spec": {"suspend": True}})
        for _ in itertools.count():
            task = await api.get("pendingtasks", name)
            if task is None or task["status"]["phase"] not in (Phase.ORCHESTRATING, Phase.DISPATCHED_GPU):
                break
            await asyncio.sleep(0.1)
        await api.patch("pendingtasks", name, {"spec": {"suspend": False}})

    async def _drop(self, version: Version) -> None:
        """Delete it. The operator ends its run; then one that is kept is let go."""
        api = self._of(version.name)
        await api.delete("pendingtasks", version.name, uid=version.uid)
        while await self._runs(version.uid):  # noqa: ASYNC110  # another process removes it
            await asyncio.sleep(0.1)
        if _kept(version.name):
            await api.patch("pendingtasks", version.name, {"metadata": {"finalizers": None}})

    async def _runs(self, uid: str) -> bool:
        """Has the task a Job that may have a pod?"""
        jobs = [one for one in await self._api.list("jobs") if one["metadata"]["labels"][job.UID_LABEL] == uid]
        return any(not one["spec"].get("suspend") for one in jobs)


def _kept(name: str) -> bool:
    """A finalizer holds it when it is deleted."""
    return kinds.kind(name) is Kind.DROP and int(name[-1]) % 2 == 0
