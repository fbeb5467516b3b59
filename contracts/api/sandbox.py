"""A command that a run wants to have run in a Job of its own: the record that run and operator share in MongoDB.

`sandbox_commands`: {_id: "<task uid>/<delegation>.<ordinal>", taskUid, ...}, as `Command` says. The run writes it as
Requested and waits; the operator makes a Job without token and egress from it, and writes how it ended. The record goes
with the task's other data (`contracts.mongo_collections`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from crds import scope, values

COLLECTION = "sandbox_commands"
_Word = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")]


class State(StrEnum):
    """Requested: by the run. Running: a Job has it. Done: it ended, with whatever exit code. Failed: it could not be
    run, or had no result; `message` says why."""

    REQUESTED = "Requested"
    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class Limits(_Model):
    """Seconds of wall clock, memory as a quantity of Kubernetes, and bytes of output and of the patch."""

    seconds: Annotated[int, Field(ge=1, le=3600)]
    memory: values.Quantity
    output_bytes: Annotated[int, Field(ge=1, le=16 << 20)] = 1 << 20
    patch_bytes: Annotated[int, Field(ge=1, le=16 << 20)] = 4 << 20


class Command(_Model):
    """`image` is a role that the operator knows an image for. `argv` is run without a shell in the unpacked
    `workspace`, a tar.gz that the knowledge base stores for `scope`.

    With Done: `exitCode`, `outputRef` (standard output and error together, as they came; None: there was none) and
    `patchRef` (the changes of its files, of `git diff --binary`; None: there were none).
    """

    id: Annotated[str, Field(alias="_id", max_length=400, pattern=r"^[A-Za-z0-9-]+/[A-Za-z0-9._-]+$")]
    task_uid: Annotated[str, Field(min_length=1, max_length=63)]
    namespace: Annotated[str, Field(min_length=1, max_length=63)]
    scope: scope.Scope
    image: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
    argv: Annotated[tuple[_Word, ...], Field(min_length=1, max_length=100)]
    workspace: values.ContentRef
    limits: Limits
    requested_at: AwareDatetime
    state: State = State.REQUESTED
    exit_code: int | None = None
    output_ref: values.ContentRef | None = None
    patch_ref: values.ContentRef | None = None
    message: str = ""
    ended_at: AwareDatetime | None = None

    @model_validator(mode="after")
    def _ended(self) -> Command:
        if self.state is State.DONE and self.exit_code is None:
            raise ValueError("a command that is Done has an exitCode")
        return self
