"""Small tasks that show whether a model is enough for its role, asked with the prompts and shapes of the product.

`kb.trials` and `orchestrator_job.trials` have the tasks; this module asks them at the lowest priority and writes a line
of JSON for each result, which `kubectl jervis models --check` reads and sums up by role.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, TextIO

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_settings import BaseSettings, SettingsConfigDict

from crds import errors, modelroles, priority
from router.client import asking, calls, reading, schema

MARK = "jervis-trial "
"""Before each result in the log of the Job."""
COUNT = "jervis-trials "
"""Before the number of results that a process of the Job is about to write."""
_TOKENS = 2048
_CALLS = 4
"""Of one question, while the router is too busy for it: work goes before trials, and says nothing about the model."""
_WAIT, _LONGEST_WAIT = 5.0, 30.0
"""Seconds between them where the router names none, and at most."""
_PREFIX = "JERVIS_"


class Settings(BaseSettings):
    """`JERVIS_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, extra="ignore", frozen=True)

    router_url: Annotated[str, Field(pattern=r"^https?://[^/\s]+")]
    router_token_file: str = ""
    """Path of the token by which the router knows the caller, if it requires one."""
    roles: tuple[modelroles.Assigned, ...]


class Verdict(StrEnum):
    """From good to bad."""

    RIGHT = "Right"
    WRONG = "Wrong"
    """An answer of the shape that was asked for, which does not say what it should."""
    UNUSABLE = "Unusable"
    """No answer of the shape in all tries."""
    AWAY = "Away"
    """The model could not be asked."""


class Result(BaseModel):
    """What came of one task. `valid`: the answer was valid as it was sent, and the first one; of calls of tools, the
    right ones are. `detail` says what was wrong."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)

    role: str
    model: str
    task: str
    language: str
    verdict: Verdict
    valid: bool = False
    tries: int = 0
    tokens: int = 0
    detail: str = ""


@dataclass(frozen=True)
class Trial:
    """One task of a role. `wrong` gives what is wrong with an answer, or "". With `tools` the answer is a call, and
    `wrong` is given the reply."""

    role: str
    name: str
    language: str
    messages: asking.Messages
    wrong: Callable[[Any], str]
    shape: type[schema.Shape] | None = None
    wire: schema.Wire | None = None
    choices: schema.Choices | None = None
    tools: Sequence[Mapping[str, Any]] = ()


Sleep = Callable[[float], Awaitable[object]]


async def ask(client: calls.Client, trial: Trial, role: modelroles.Assigned, sleep: Sleep = asyncio.sleep) -> Result:
    """The result of one task. Only faults of the network and of models are results. `sleep` takes seconds."""
    spent = 0

    async def send(each: asking.Try) -> calls.Reply:
        nonlocal spent
        for left in reversed(range(_CALLS)):
            try:
                reply = await client.converse(
                    role.model,
                    each.messages,
                    priority.Priority.P3,
                    each.format_schema if trial.shape is not None else None,
                    role.num_ctx,
                    _TOKENS,
                    trial.tools,
                    temperature=each.temperature,
                )
                break
            except calls.Unavailable as error:
                if not left:
                    raise
                await sleep(min(_WAIT if error.retry_after is None else error.retry_after, _LONGEST_WAIT))
        spent += reply.prompt_tokens + reply.answer_tokens
        return reply

    about = {"role": trial.role, "model": role.model, "task": trial.name, "language": trial.language}
    try:
        if trial.shape is None:
            first = asking.Try(0, trial.messages, schema.Wire({}), None)
            detail = trial.wrong(await send(first))
            tries, valid = 1, not detail
        else:
            asked = await asking.ask(
                send, trial.messages, [trial.shape], trial.wrong, wire=trial.wire, choices=trial.choices
            )
            detail, tries, valid = asked.value, asked.tries, asked.tries == 1 and not asked.problems
    except reading.Unusable as error:
        return Result(**about, verdict=Verdict.UNUSABLE, tries=asking.ATTEMPTS, tokens=spent, detail=error.message)
    except errors.JervisError as error:
        return Result(**about, verdict=Verdict.AWAY, tokens=spent, detail=error.message)
    verdict = Verdict.WRONG if detail else Verdict.RIGHT
    return Result(**about, verdict=verdict, valid=valid, tries=tries, tokens=spent, detail=detail)


async def run(trials: Iterable[Trial], settings: Settings, out: TextIO) -> None:
    """Ask each task of the roles that have a model: their number is written first, then each result."""
    roles = {role.role: role for role in settings.roles}
    # A role without a model of its own has its work done by another one.
    asked = [(trial, roles[trial.role]) for trial in trials if trial.role in roles]
    out.write(f"{COUNT}{len(asked)}\n")
    token = calls.token_file(settings.router_token_file)
    async with httpx.AsyncClient(transport=calls.few(settings.router_url)) as http:
        client = calls.Client(settings.router_url, http, token=token, mode="Background")
        for trial, role in asked:
            result = await ask(client, trial, role)
            out.write(f"{MARK}{result.model_dump_json(by_alias=True)}\n")
            out.flush()


def read(log: str) -> list[Result]:
    """The results in the log of the Job."""
    lines = [line.partition(MARK)[2] for line in log.split("\n") if MARK in line]
    return [Result.model_validate(json.loads(line)) for line in lines]


def announced(log: str) -> int:
    """How many results the processes of the Job were about to write when they began."""
    return sum(int(line.removeprefix(COUNT)) for line in log.splitlines() if line.startswith(COUNT))


def main(trials: Callable[[], Iterable[Trial]]) -> int:
    """The root of a process that asks its tasks once. Exit status: 2 for settings that cannot be used, else 0."""
    try:
        settings = Settings()
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_input=False, include_context=False):
            name = "_".join(map(str, problem["loc"])).upper()
            sys.stderr.write(f"setting {_PREFIX}{name}: {problem['msg']}\n")
        return 2
    asyncio.run(run(trials(), settings, sys.stdout))
    return 0
