"""Questions about the code of a branch, answered from the code graph of the knowledge base; no model is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import Field, StringConstraints

from codegraph import api
from crds import urns
from kb import client as kb_client
from orchestrator_job import outcome
from orchestrator_job.effects.tools import bounds, port
from orchestrator_job.effects.tools.knowledge import Means

_KIND = "git_branch"
_Symbol = Annotated[str, StringConstraints(min_length=1, max_length=1000, strip_whitespace=True)]


class _OfBranch(port.Arguments):
    """`repository` (org/name) is needed where there are several, `branch` where there is no default one."""

    repository: Annotated[str, Field(max_length=511)] = ""
    branch: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class Where(_OfBranch):
    """`text` is that of an issue, an error or a question."""

    text: Annotated[str, Field(min_length=1, max_length=20_000)]
    limit: Annotated[int, Field(ge=1, le=30)] = 10


class Calls(_OfBranch):
    """`symbol` is the end of a qualified name (`area`, `Shape.area`) or PATH:NAME; `after` is that of the next page."""

    symbol: _Symbol
    after: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=100)] = 50


class Impact(Calls):
    """Up to `depth` steps away."""

    depth: Annotated[int, Field(ge=1, le=10)] = 3


class Outline(_OfBranch):
    """`near`: paths or symbols that matter most."""

    tokens: Annotated[int, Field(ge=64, le=4000)] = 1500
    near: Annotated[tuple[_Symbol, ...], Field(max_length=20)] = ()


class _Answered(Protocol):
    @property
    def coverage(self) -> api.Coverage: ...


Answer = tuple[_Answered, Iterable[str]]
"""A reply, and its lines."""


class _Question:
    name: ClassVar[str]

    def __init__(self, means: Means) -> None:
        self._means = means

    async def read(self, given: Any, place: port.Place) -> port.Result:
        """Lines, and what they stand on. Raises `kb_client.Unavailable`."""
        try:
            reply, lines = await self.asked(given)
        except kb_client.Rejected as error:
            outcome.recheck(error)
            return bounds.failed(error)
        about = reply.coverage
        source = urns.branch(about.repository, about.branch)
        if not self._means.rules.shows(source, _KIND):
            return bounds.failed("A hard rule keeps this branch back.")
        stale = "" if about.current else "; a newer commit is being read"
        unknown = f"; calls not known: {', '.join(about.calls_unknown)}" if about.calls_unknown else ""
        head = f"{about.repository} {about.branch} at {about.commit[:12]}{unknown}{stale}"
        data = {"repository": about.repository, "branch": about.branch, "commit": about.commit}
        return port.Result(bounds.cut("\n".join([head, *lines])), data, sources=(source,))

    async def asked(self, given: Any) -> Answer:
        """The reply and its lines. Raises what the knowledge base raises."""
        raise NotImplementedError

    def _of(self, given: _OfBranch) -> dict[str, Any]:
        return {"scope": self._means.viewer, "repository": given.repository, "branch": given.branch}


def _place(one: api.CodePlace) -> str:
    return f"{one.path}:{one.line} {one.kind} {one.qualified_name}"


def _more(reply: api.CallsReply | api.ImpactReply) -> list[str]:
    return [] if reply.next is None else [f"[{reply.total} in all. Go on with after={reply.next}.]"]


class WhereTool(_Question):
    """Files and functions for a text."""

    name = "code_where"
    description = "Which files and functions a text (an issue, an error) is about, best first."
    arguments = Where

    async def asked(self, given: Where) -> Answer:
        """Files, then functions."""
        reply = await self._means.kb.code.where(api.CodeWhere(text=given.text, limit=given.limit, **self._of(given)))
        files = [f"{one.score:.2f} {one.path}" for one in reply.files]
        return reply, [
            "Files:",
            *files,
            "Functions:",
            *(f"{one.score:.2f} {_place(one.place)}" for one in reply.functions),
        ]


class CallersTool(_Question):
    """Who calls it."""

    name = "code_callers"
    description = "Who calls a function or method."
    arguments = Calls

    async def asked(self, given: Calls) -> Answer:
        """Calls."""
        return await _calls(self._means.kb.code.callers, api.Callers(**self._of(given), **_page(given)))


class CalleesTool(_Question):
    """Whom it calls."""

    name = "code_callees"
    description = "Which functions and methods a function calls."
    arguments = Calls

    async def asked(self, given: Calls) -> Answer:
        """Calls."""
        return await _calls(self._means.kb.code.callees, api.Callers(**self._of(given), **_page(given)))


def _page(given: Calls) -> dict[str, Any]:
    return {"symbol": given.symbol, "after": given.after, "limit": given.limit}


async def _calls(ask: Callable[[api.Callers], Awaitable[api.CallsReply]], question: api.Callers) -> Answer:
    reply = await ask(question)
    calls = [f"line {one.line}: {_place(one.caller)} calls {_place(one.callee)}" for one in reply.calls]
    return reply, [_place(reply.symbol), *(calls or ["No calls are known."]), *_more(reply)]


class ImpactTool(_Question):
    """What may break, and which tests to run."""

    name = "code_impact"
    description = "What may break when a symbol changes, nearest first, and which files of tests to run."
    arguments = Impact

    async def asked(self, given: Impact) -> Answer:
        """Places, then files of tests."""
        reply = await self._means.kb.code.impact(api.Impact(depth=given.depth, **self._of(given), **_page(given)))
        affected = [f"{one.distance} steps, {one.by} {one.of}: {_place(one.place)}" for one in reply.affected]
        return reply, [_place(reply.symbol), *affected, *_more(reply), "Tests to run:", *reply.tests]


class OutlineTool(_Question):
    """The outline of a branch."""

    name = "code_outline"
    description = "An outline of the branch: what matters most, within a number of tokens."
    arguments = Outline

    async def asked(self, given: Outline) -> Answer:
        """Its text."""
        reply = await self._means.kb.code.map(
            api.CodeMap(tokens=given.tokens, near=list(given.near), **self._of(given))
        )
        return reply, [reply.text]


def all_of(means: Means) -> list[port.Tool]:
    """The tools of this module; none where a rule forbids searches."""
    if not means.rules.permits_tool("search"):
        return []
    return [one(means) for one in (WhereTool, CallersTool, CalleesTool, ImpactTool, OutlineTool)]
