"""pushBranch: commits that a run made become a branch of a Git Connection's remote, once.

The commits come as a bundle that the knowledge base stores. They are judged in a quarantine beside the clone before
the ledger says Sent; the push itself names the commit that the branch is to be at before, which the server compares.
So the remote can be asked for ever: the branch is at the commit, or it is not. Source: docs/decisions/0123.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from crds import connection, errors
from sources.api import problems
from sources.core import hosts, limits
from sources.effects import arguments, effect_protocol, tools
from sources.providers.git import bundle, clone, command, quarantine, reach

Load = Callable[[], Awaitable[bytes]]
_Result = TypeVar("_Result")


class Copy(Protocol):
    """Gives the clone of a Git Connection with its branches, and these commits if the remote has them on one. Raises
    `crds.errors.Operational` while there is none."""

    async def __call__(self, namespace: str, name: str, url: str, commits: Sequence[str]) -> clone.Clone:
        """The clone of the Connection `name`, as long as it is at `url`."""
        ...


@dataclass(frozen=True, slots=True)
class Where:
    """The Connection."""

    namespace: str
    name: str
    spec: connection.Spec
    at: command.Remote
    bucket: limits.Bucket


class Pushes:
    """What pushes of a process share: `width` of them are made at once. `authorities` and `plain` are as for
    `command.remote`."""

    def __init__(
        self,
        copy: Copy,
        *,
        plain: bool,
        authorities: str,
        reached: hosts.Hosts,
        monotonic: Callable[[], float],
        bounds: quarantine.Bounds | None = None,
        width: int = 3,
    ) -> None:
        self.copy, self.bounds, self.monotonic = copy, bounds or quarantine.Bounds(), monotonic
        self._plain, self._authorities, self._reached, self._width = plain, authorities, reached, width
        self._busy: list[str] = []

    def remote(self, spec: connection.Spec, credentials: effect_protocol.Result) -> command.Remote:
        """Where the pushes of a Connection go. Raises `Misconfigured`."""
        return command.remote(
            spec.url, credentials, plain=self._plain, authorities=self._authorities, seconds=self.bounds.seconds,
            reached=self._reached,
        )  # fmt: skip

    @asynccontextmanager
    async def slot(self, namespace: str) -> AsyncIterator[None]:
        """One of the pushes at a time. Raises `problems.Crowded`."""
        if len(self._busy) >= self._width or namespace in limits.full(self._busy, self._width):
            raise problems.Crowded(f"{len(self._busy)} of {self._width} pushes are made at once already")
        self._busy.append(namespace)
        try:
            yield
        finally:
            self._busy.remove(namespace)


class Push(effect_protocol.Effect):
    """One push. `load` gives the bundle."""

    def __init__(
        self, shared: Pushes, where: Where, asked: arguments.PushBranch, load: Callable[[], Awaitable[bytes]]
    ) -> None:
        self._shared, self._where, self._asked, self._load = shared, where, asked, load
        self._old, self._held, self._given_up = asked.expected or "", AsyncExitStack(), threading.Event()
        self._quarantine: quarantine.Quarantine | None = None
        self._step: asyncio.Future[Any] | None = None
        self._result = {"branch": asked.branch, "commit": asked.commit}

    async def prepare(self) -> effect_protocol.Before:
        """The bundle is the way from what the remote's branch is at to the commit. `known`: a branch of the clone has
        the commit already."""
        if self._quarantine is not None:
            await self.close()
            self._held, self._given_up = AsyncExitStack(), threading.Event()
        await self._held.enter_async_context(self._shared.slot(self._where.namespace))
        given = bundle.parse(await self._loaded())
        if self._asked.commit not in given.has:
            raise bundle.invalid(
                f"it is not of commit {self._asked.commit}", "Give the commit that `git bundle list-heads` shows."
            )
        copy = await self._copy(given.needs)
        await self._turn()
        return await self._blocking(lambda: self._judge(copy, given))

    async def send(self, before: effect_protocol.Before) -> effect_protocol.Result:
        """Push it."""
        await self._turn()
        await self._blocking(self._send)
        return self._result

    async def ask(self, before: effect_protocol.Before) -> effect_protocol.Evidence:
        """The branch is at the commit, or grew from it, or another branch that the Connection reads has it since."""
        asked = self._asked
        now = (await self._listed()).branches.get(asked.branch, "")
        if now == asked.commit:
            return effect_protocol.Evidence(self._result)
        copy = await self._copy([asked.commit])
        found = await self._blocking(lambda: self._published(copy, now, known=bool(before.get("known"))))
        return effect_protocol.Evidence(self._result) if found else effect_protocol.Evidence(absent=True)

    async def close(self) -> None:
        """End what is going on, and remove the quarantine."""
        self._given_up.set()
        if self._step is not None:
            # A thread is not cancelled; its commands end within a second.
            await asyncio.wait([self._step])
        await asyncio.to_thread(self._leave)
        await self._held.aclose()

    def _leave(self) -> None:
        if self._quarantine is not None:
            self._quarantine.close()
            self._quarantine = None

    async def _loaded(self) -> bytes:
        reference, raw = self._asked.bundle, await self._load()
        if (len(raw), hashlib.sha256(raw).hexdigest()) != (reference.bytes, reference.sha256):
            raise problems.Invalid(
                "the stored content is not what contentRef describes",
                field=f"{bundle.FIELD}.sha256",
                remedy="Give the contentRef as the knowledge base gave it.",
            )
        return raw

    async def _copy(self, commits: Sequence[str]) -> clone.Clone:
        where = self._where
        return await self._shared.copy(where.namespace, where.name, where.spec.url, commits)

    async def _listed(self) -> clone.Listed:
        await self._turn()
        return await self._blocking(lambda: clone.listed(self._where.at))

    async def _turn(self) -> None:
        if pause := self._where.bucket.reserve(self._shared.monotonic()):
            await asyncio.sleep(pause)

    async def _blocking(self, step: Callable[[], _Result]) -> _Result:
        future = asyncio.ensure_future(asyncio.to_thread(step))
        self._step = future
        try:
            return await asyncio.shield(future)
        finally:
            # An error of a step that was given up is of no interest.
            future.add_done_callback(lambda one: one.cancelled() or one.exception())

    def _opened(self, copy: clone.Clone) -> quarantine.Quarantine:
        if self._quarantine is None:
            made = quarantine.Quarantine(copy, self._shared.bounds, self._why)
            made.open()
            self._quarantine = made
        return self._quarantine

    def _why(self) -> str:
        return "the effect took too long" if self._given_up.is_set() else ""

    def _judge(self, copy: clone.Clone, given: bundle.Bundle) -> effect_protocol.Before:
        asked, allowed = self._asked, self._where.spec.git
        found = clone.listed(self._where.at)
        push = allowed.push if allowed else None
        if push is None or not push.allows(asked.branch, default=asked.branch == found.default):
            raise forbidden(asked.branch, push)
        now = found.branches.get(asked.branch, "")
        if now != self._old:
            raise quarantine.moved(asked.branch, now)
        place = self._opened(copy)
        if now:
            place.bring(self._where.at, now)
        place.admit(given, asked.commit, self._old)
        return {"known": not reach.lacking(place.path, copy.tips(), [asked.commit], watch=self._why)}

    def _send(self) -> None:
        assert self._quarantine is not None
        asked, at = self._asked, self._where.at
        try:
            self._quarantine.push(at, asked.branch, asked.commit, self._old)
        except errors.Permanent as error:
            # A server says what it likes on its way, and curl repeats a request whose connection broke off: the second
            # one is refused because of the first. The branch decides.
            now = clone.listed(at).branches.get(asked.branch, "")
            if now == asked.commit:
                return
            if now != self._old and not isinstance(error, problems.Conflict):
                raise effect_protocol.Ambiguous(error.message) from error
            raise

    def _published(self, copy: clone.Clone, now: str, *, known: bool) -> bool:
        commit, tips = self._asked.commit, copy.tips()
        if not known and tips and not reach.lacking(copy.path, tips, [commit], watch=self._why):
            return True
        if not now or now == self._old:
            return False
        place = self._opened(copy)
        place.bring(self._where.at, now)
        return place.includes(commit, now)


def effects(shared: Pushes | None) -> tools.Opens:
    """What opens the effects at a Git Connection; `shared` is None in a process without clones."""

    async def opens(request: tools.EffectRequest, means: tools.Means) -> Push:
        asked, target = request.arguments, request.target
        assert isinstance(asked, arguments.PushBranch)
        if shared is None:
            raise problems.Forbidden("this process has no clones of repositories", field="connection")
        at = shared.remote(target.spec, target.credentials)
        where = Where(target.namespace, target.name, target.spec, at, target.bucket)
        return opened(shared, where, asked, partial(means.load, request.owner, asked.bundle.key))

    return opens


def opened(shared: Pushes, where: Where, asked: arguments.PushBranch, load: Load) -> Push:
    """The push, with nothing done yet. Raises `problems.Forbidden`, `problems.TooLarge`."""
    push = where.spec.git.push if where.spec.git else None
    if push is None or not push.allows(asked.branch):
        raise forbidden(asked.branch, push)
    if asked.bundle.bytes > shared.bounds.bundle:
        raise problems.TooLarge(
            f"the bundle has {asked.bundle.bytes} bytes, at most {shared.bounds.bundle} are taken",
            field=f"{bundle.FIELD}.bytes",
            remedy="Push a part of the commits first, or raise sources.settings.pushBundleBytes of the chart.",
        )
    return Push(shared, where, asked, load)


def forbidden(branch: str, push: connection.Push | None) -> problems.Forbidden:
    """The Connection does not allow the push."""
    if push is None:
        return problems.Forbidden(
            "the Connection allows no push",
            field="connection",
            remedy="Who owns it lists branches in spec.git.push.branches, for example jervis/*.",
        )
    return problems.Forbidden(
        f"runs may not push branch {branch!r}",
        field="arguments.branch",
        remedy=f"Push one of {', '.join(push.branches)}; the default branch has to be listed by its own name.",
    )
