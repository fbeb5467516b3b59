"""What the loop of an agent has at any time: for the journal, for its report, and for an end without one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

import crds.errors
from crds import access
from orchestrator_job import errors
from orchestrator_job.effects.tools import port
from orchestrator_job.model import prompt_budget
from orchestrator_job.store import delegation_models
from router.client import reading

_PARTIAL_CHARS = 2000
"""Characters of one result in a report of an agent that was stopped."""
_PARTIALS = 10


@dataclass(slots=True)
class Made:
    """What a loop has found and made so far; `said` are the texts of its model."""

    said: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    artifacts: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    subs: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    data: dict[str, JsonValue] = field(default_factory=dict)

    def take(self, name: str, arguments: object, result: port.Result) -> None:
        """Add what a call gave."""
        self.sources += result.sources
        self.artifacts += result.artifacts
        self.changed += result.changed_files
        if result.data and not result.failed:
            self.data[name] = dict(result.data)
        if not result.failed:
            shown = prompt_budget.cut(result.text, _PARTIAL_CHARS)
            self.found.append(f"{name} {prompt_budget.plainly(arguments)}:\n{shown}")

    def into(self, output: delegation_models.AgentOutput) -> delegation_models.AgentOutput:
        """The report with what was made beside it."""
        more: dict[str, JsonValue] = {"sources": list(dict.fromkeys(self.sources))} if self.sources else {}
        if self.data:
            more["tools"] = dict(self.data)
        return output.model_copy(
            update={
                "artifacts": tuple(dict.fromkeys((*output.artifacts, *self.artifacts))),
                "changed_files": tuple(dict.fromkeys((*output.changed_files, *self.changed))),
                "sub_delegations": (*output.sub_delegations, *self.subs),
                "structured_data": {**output.structured_data, **more},
            }
        )


def stopped(
    message: delegation_models.DelegationMessage,
    agent: str,
    error: crds.errors.Permanent,
    made: Made,
) -> delegation_models.AgentOutput:
    """The report of an agent that was stopped: what it has, why it ended, and what is therefore missing."""
    missing = f"{error.message} This was not finished: {message.task_summary}"
    parts = [*map(reading.plain, made.said[-1:]), *made.found[-_PARTIALS:]]
    return delegation_models.AgentOutput(
        delegation_id=message.delegation_id,
        agent_name=agent,
        success=False,
        result="\n\n".join(parts),
        structured_data={
            "status": "P" if parts else "0",
            "issues": [missing],
            "stopped": error.reason.value if isinstance(error, errors.Failure) else "Error",
        },
        confidence=0.0,
        needs_verification=True,
    )


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply as the journal has it."""

    text: str
    prompt_tokens: int
    answer_tokens: int
    calls: list[dict[str, Any]]
    cut: bool
    thinking: str = ""
    endless: bool = False


def stored(result: port.Result) -> dict[str, Any]:
    """For the journal."""
    return {
        "text": result.text,
        "data": dict(result.data),
        "sources": list(result.sources),
        "artifacts": list(result.artifacts),
        "changed_files": list(result.changed_files),
        "failed": result.failed,
        "parts": [[one.source, one.start, one.end, one.readers.wire()] for one in result.parts],
    }


WAITS = """Recorded: this waits for a person, who sees it once nothing else is left to do here. Go on with all that does
not depend on it, and do not call it again. Then report; you are given the results before your work ends."""
"""The answer to a call that a person decides about."""


@dataclass(slots=True)
class Recorded:
    """A call that waits for a person: its place in the journal, the call, for a delegation its id, and the result once
    there is one."""

    ordinal: int
    call: Mapping[str, Any]
    sub_id: str = ""
    result: port.Result | None = None


def contents(kept: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Key, name and media type of what `stored` says that the tool has stored."""
    data = kept["data"]
    return [
        (str(key), str(data.get("name", "")), str(data.get("mediaType", "")))
        for key in (() if kept["failed"] else kept["artifacts"])
    ]


def restored(kept: Mapping[str, Any]) -> port.Result:
    """What `stored` gave."""
    return port.Result(
        kept["text"],
        data=kept["data"],
        sources=tuple(kept["sources"]),
        artifacts=tuple(kept["artifacts"]),
        changed_files=tuple(kept["changed_files"]),
        failed=kept["failed"],
        parts=tuple(
            port.Part(source, start, end, access.Access.model_validate(readers))
            for source, start, end, readers in kept.get("parts", ())
        ),
    )
