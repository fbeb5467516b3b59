"""Commands on a workspace, run by the operator in a Job of its own: no token, no network, limits.

The run records what it wants (`contracts.api.sandbox`) under the key of the call and waits for the record to be Done. A
resumed run finds its record and waits for the same command; nothing is run twice. The patch is then applied to the
workspace as any other change.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from contracts.api import sandbox
from crds import errors, values
from kb import client as kb_client
from orchestrator_job import outcome
from orchestrator_job.effects.tools import bounds, checkout, connections, knowledge, port, settings, workspace
from orchestrator_job.store import fence, mongo
from sources import client as sources_client

PAUSE = 2.0
_STARTING = 300
"""Seconds beside the command's own for its Job to be made, to start and to hand over its result."""
_SHOWN = 12_000


class RunCommand(port.Arguments):
    """`argv` is run without a shell, as in ["pytest", "-q", "tests/test_area.py"]."""

    connection: connections.Name = ""
    image: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")] = "python"
    argv: Annotated[
        tuple[Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")], ...], Field(min_length=1, max_length=100)
    ]
    seconds: Annotated[int, Field(ge=1, le=3600)] = 300


class Waiting(errors.Operational):
    """The command has no result yet."""


@dataclass(frozen=True, slots=True)
class Means:
    """What recording and waiting need; `sleep` waits seconds, `now` is in UTC."""

    database: mongo.Database
    guard: fence.Fence
    namespace: str
    allowed: settings.Settings
    now: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Run:
    """The tool."""

    name = "run_command"
    description = "Run a command (tests, a linter) on the open repository, in a sandbox without network."
    arguments = RunCommand

    def __init__(self, known: knowledge.Means, means: Means, checkouts: workspace.Checkouts) -> None:
        self._known, self._means, self._checkouts = known, means, checkouts

    async def read(self, given: RunCommand, place: port.Place) -> port.Result:
        """How it ended. Raises `Waiting` while there is no result, and what the knowledge base raises."""
        allowed = self._means.allowed
        if not allowed.sandbox:
            return bounds.failed("No sandbox is configured, so commands cannot be run. Say what should be run instead.")
        if given.image not in allowed.sandbox_images:
            return bounds.failed(f"There is no image {given.image!r}; images are {', '.join(allowed.sandbox_images)}.")
        if given.seconds > allowed.sandbox_seconds:
            return bounds.failed(f"A command may take {allowed.sandbox_seconds} seconds at most.")
        try:
            at = self._checkouts.of(given.connection)
            await at.reading()
            ended = await self._ended(given, place, at)
            return await self._result(given, place, at, ended)
        except (checkout.Unworkable, kb_client.Rejected, sources_client.Rejected) as error:
            outcome.recheck(error)
            return bounds.failed(error)

    async def _ended(self, given: RunCommand, place: port.Place, at: checkout.Checkout) -> sandbox.Command:
        """The record, once the operator has written its end."""
        means, own = self._means, {"_id": f"{self._means.guard.task_uid}/{place.key}"}
        found = await means.database.find_one(sandbox.COLLECTION, own)
        if found is None:
            ref = await self._known.kb.store(self._known.viewer, await at.pack(), "application/gzip")
            asked = sandbox.Command(
                _id=own["_id"], task_uid=means.guard.task_uid, namespace=means.namespace, scope=self._known.viewer,
                image=given.image, argv=given.argv, workspace=values.ContentRef.model_validate(ref.model_dump()),
                limits=sandbox.Limits(seconds=given.seconds, memory=means.allowed.sandbox_memory),
                requested_at=means.now(),
            )  # fmt: skip
            made = asked.model_dump(by_alias=True, mode="json", exclude_none=True) | {"requestedAt": means.now()}
            await means.guard.keep(
                lambda: means.database.insert(sandbox.COLLECTION, made),
                lambda: means.database.delete(sandbox.COLLECTION, own),
            )
        for _ in range(int((given.seconds + _STARTING) / PAUSE) + 1):
            found = await means.database.find_one(sandbox.COLLECTION, own)
            if found is None:
                await means.guard.check()
                raise checkout.Unworkable("The record of the command was removed.")
            record = sandbox.Command.model_validate({key: value for key, value in found.items() if value is not None})
            if record.state in (sandbox.State.DONE, sandbox.State.FAILED):
                return record
            await means.sleep(PAUSE)
        raise Waiting(f"The command {place.key} has no result yet.")

    async def _result(
        self, given: RunCommand, place: port.Place, at: checkout.Checkout, ended: sandbox.Command
    ) -> port.Result:
        if ended.state is sandbox.State.FAILED:
            return bounds.failed(f"The command was not run: {ended.message}")
        output = (await self._fetched(ended.output_ref)).decode(errors="replace")
        patch = await self._fetched(ended.patch_ref)
        code = ended.exit_code
        about = f"{' '.join(given.argv)}: exit code {code}"
        if len(output) > _SHOWN:
            # The end of a test's output says what failed.
            output = f"[{len(output) - _SHOWN} characters before this are left out]\n{output[-_SHOWN:]}"
        answer = port.Result(f"{about}\n{output}".rstrip(), {"exitCode": code, "patched": bool(patch)})
        if not patch:
            return answer

        async def make(tree: checkout.Checkout) -> port.Result:
            await tree.apply(patch)
            return answer

        try:
            return await at.change(place.key, make)
        except checkout.Unworkable as error:
            return port.Result(f"{answer.text}\n[What it changed was not taken over: {error.message}]", answer.data)

    async def _fetched(self, ref: values.ContentRef | None) -> bytes:
        if ref is None:
            return b""
        raw = await self._known.kb.fetch(self._known.viewer, ref.key)
        if hashlib.sha256(raw).hexdigest() != ref.sha256:
            raise checkout.Unworkable("The stored result of the command is damaged.")
        return raw
