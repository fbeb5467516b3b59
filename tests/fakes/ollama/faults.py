"""What can go wrong, chosen by the test: a list of faults, each with the requests it hits and one thing it does.

    - {match: {path: /api/chat, tag: kb.hints/v2}, nth: 1, status: {code: 503, retryAfter: 2}}
    - {match: {model: qwen2.5:7b}, reset: {afterBytes: 100}}
    - {match: {path: "/api/*"}, times: 3, stall: {afterBytes: 0, gate: release}}
    - {match: {}, every: 10, error: {afterLines: 3, message: "model runner has unexpectedly stopped"}}
    - {match: {}, malformed: wire}       # or `answer`: a well-formed reply with a part of the JSON
    - {match: {model: gpt-oss:120b}, engine: thinks}       # a habit of real engines, see `Engine`
    - {match: {body: '"maxLength": 2001'}, crash: {}}   # the runner ends, and what else it was at
    - {match: {}, crash: {afterLines: 2}}               # in the middle of the answer
    - {match: {}, crash: {loading: true}}               # while it loads the model for the request

The first fault that fires wins. `nth` and `every` count the requests that matched this fault, from 1.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator
from pydantic.alias_generators import to_camel

from tests.fakes.ollama.protocol import names

Engine = Literal["thinks", "thinksInText", "ignoresFormat", "blanks", "endsEarly", "noTools", "diesOfBounds"]
"""What real engines do with requests that the simulator's own takes as they are meant:

    thinks         thoughts come before the answer, in `message.thinking`, and count as its tokens
    thinksInText   thoughts come as `<think>` in the text
    ignoresFormat  the answer stands in prose, between fences
    blanks         after two thirds of the answer blanks come until the bound
    endsEarly      after two thirds the same token comes thirty times, and the stream ends without its last record
    noTools        the model's template has no tools: HTTP 400
    diesOfBounds   a text of more than 2,000 characters in a schema ends the runner, as `crash` does: HTTP 500
"""
_ACTIONS = ("status", "reset", "stall", "error", "crash", "malformed", "engine")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Match(_Strict):
    """Which requests: every field that is given must fit. `path`, `tag` and `priority` may hold shell wildcards; `body`
    is a text that the body contains."""

    path: str | None = None
    model: str | None = None
    tag: str | None = None
    priority: str | None = None
    body: str | None = None

    def hits(self, path: str, model: str | None, tag: str | None, priority: str | None, body: bytes = b"") -> bool:
        if self.body is not None and self.body.encode() not in body:
            return False
        pairs = ((self.path, path), (self.tag, tag), (self.priority, priority))
        if any(wanted is not None and not fnmatchcase(given or "", wanted) for wanted, given in pairs):
            return False
        return self.model is None or names.canonical(self.model) == names.canonical(model or "")


class Status(_Strict):
    """Answer with this status instead of generating."""

    code: int = Field(ge=400, le=599)
    message: str = "simulated fault"
    retry_after: int | None = Field(None, ge=0)


class Reset(_Strict):
    """Reset the connection after this many bytes of the answer's body; 0: before any."""

    after_bytes: int = Field(0, ge=0)


class Stall(_Strict):
    """Stop after this many bytes of the body; go on after `seconds`, when `gate` is opened, or (neither given)
    never.
    """

    after_bytes: int = Field(0, ge=0)
    seconds: float | None = Field(None, ge=0)
    gate: str | None = None


BROKEN = "an error was encountered while running the model: unexpected EOF"
"""Ollama's words for a runner that ended in the middle of an answer (`llm/server.go`)."""


class ErrorLine(_Strict):
    """After this many pieces of a stream, write an error line under the status already sent, and end."""

    after_lines: int = Field(1, ge=0)
    message: str = BROKEN


STOPPED = (
    "model runner has unexpectedly stopped, this may be due to resource limitations or an internal error, check ollama "
    "server logs for details"
)
"""Ollama's words for a runner that ended before its first token (`llm/server.go`)."""


KILLED = "llama runner process has terminated: signal: killed"
"""Its words for one that ended while it loaded its model."""


class Crash(_Strict):
    """The runner ends, and everything else that it was at ends with it: before it answers (HTTP 500), after so many
    pieces of the answer, or while it loads the model for this request. /api/ps lists the model until it is asked for
    again or its time is over, except after a load."""

    message: str = ""
    after_lines: int | None = Field(None, ge=1)
    loading: bool = False


class Fault(_Strict):
    """One fault: `match` and counting say when, exactly one of the others says what."""

    match: Match = Field(default_factory=Match)
    nth: int | None = Field(None, ge=1)
    every: int | None = Field(None, ge=1)
    times: int | None = Field(None, ge=1)
    status: Status | None = None
    reset: Reset | None = None
    stall: Stall | None = None
    error: ErrorLine | None = None
    crash: Crash | None = None
    malformed: Literal["wire", "answer"] | None = None
    engine: Engine | None = None
    _seen: int = PrivateAttr(0)
    _fired: int = PrivateAttr(0)

    @model_validator(mode="after")
    def _one_action(self) -> Fault:
        given = [name for name in _ACTIONS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a fault does exactly one of {', '.join(_ACTIONS)}; this one has {given or 'none'}")
        return self

    def fires(self) -> bool:
        """Count one matching request and say whether it is hit."""
        self._seen += 1
        if self.times is not None and self._fired >= self.times:
            return False
        if self.nth is not None and self._seen != self.nth:
            return False
        if self.every is not None and self._seen % self.every:
            return False
        self._fired += 1
        return True


class Plan:
    """The faults in force."""

    def __init__(self, faults: list[Fault]) -> None:
        self._faults = faults

    def choose(
        self, path: str, model: str | None, tag: str | None, priority: str | None, body: bytes = b""
    ) -> Fault | None:
        """The fault that hits this request, if any. Counts the request for every fault that it matches."""
        hit = [fault for fault in self._faults if fault.match.hits(path, model, tag, priority, body)]
        fired = [fault for fault in hit if fault.fires()]
        return fired[0] if fired else None


def parse(documents: object) -> Plan:
    """A list of fault objects. ValueError tells which one is wrong and why."""
    if not isinstance(documents, list):
        raise ValueError(f"faults: expected a list of objects {{match, nth?, {'|'.join(_ACTIONS)}}}")
    return Plan([Fault.model_validate(document) for document in documents])
