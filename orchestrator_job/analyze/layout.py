"""What the containers of the pod leave for each other below the work volume, and what the kubelet reads of them.

    WORK/source                    the working tree, a shallow clone
    WORK/source.json               {repository, branch, commit, default}
    WORK/.jervis/cpg-export.json   of Joern: `codegraph.api.CpgExport`
    WORK/.jervis/query.json        of Joern for a query: {state, result, reason, message, languages}
    WORK/.jervis/failure.json      of Joern: {reason, message}

Joern has read files of strangers: what it leaves is bounded and validated here. Source of the message: Kubernetes
"Determine the Reason for Pod Failure" (4,096 bytes).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pydantic
from pydantic import BaseModel, Field, StringConstraints

from codegraph import api
from crds import errors
from orchestrator_job import termination

EXPORT_BYTES, ANSWER_BYTES = 15 << 20, 8 << 20
_MESSAGE, _CUT = 1000, 32
_Model = TypeVar("_Model", bound=BaseModel)


class Failure(errors.Permanent):
    """Why something that was asked for is not there; `reason` is one CamelCase word."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Source(BaseModel):
    """What was cloned; `default` is the default branch, "" if unknown."""

    repository: Annotated[str, StringConstraints(min_length=1, max_length=511)]
    branch: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,64}$")]
    default: str = ""

    @property
    def of(self) -> api.Repository:
        """As the knowledge base names it."""
        org, _, name = self.repository.rpartition("/")
        return api.Repository(org=org, name=name, default_branch=self.default)


class Said(BaseModel):
    """The failure of Joern."""

    reason: Annotated[str, StringConstraints(max_length=64, pattern=r"^[A-Z][A-Za-z0-9]*$")]
    message: str = ""


class Answer(Said):
    """What became of a query."""

    state: str
    reason: Annotated[str, StringConstraints(max_length=64, pattern=r"^([A-Z][A-Za-z0-9]*)?$")] = ""
    result: Annotated[str, StringConstraints(max_length=api.RESULT_CHARS)] = ""
    languages: Annotated[list[str], Field(max_length=64)] = []


class Work:
    """The files below the volume."""

    def __init__(self, place: Path) -> None:
        self._place, self._left = place, place / ".jervis"
        self.tree, self.git = place / "source", place / "source" / ".git"

    def cloned(self, source: Source) -> None:
        """Record what was cloned."""
        (self._place / "source.json").write_text(source.model_dump_json(), encoding="utf-8")

    def source(self) -> Source:
        """What was cloned. Raises `Failure`."""
        found = self._read(self._place / "source.json", Source, 1 << 16)
        if found is None:
            raise Failure("CloneFailed", "Nothing was cloned.")
        return found

    def export(self) -> api.CpgExport:
        """What Joern exported. Raises `Failure`, also with what Joern says why it exported nothing."""
        found = self._read(self._left / "cpg-export.json", api.CpgExport, EXPORT_BYTES)
        if found is None:
            raise self._said()
        return found

    def answer(self) -> Answer:
        """What became of the query. Raises `Failure`."""
        found = self._read(self._left / "query.json", Answer, ANSWER_BYTES)
        if found is None:
            raise self._said()
        return found

    def _said(self) -> Failure:
        said = self._read(self._left / "failure.json", Said, 1 << 16)
        if said is None:
            return Failure("JoernFailed", "Joern left neither a result nor a reason.")
        return Failure(said.reason, said.message[:_MESSAGE])

    def _read(self, path: Path, model: type[_Model], most: int) -> _Model | None:
        try:
            with path.open("rb") as file:
                body = file.read(most + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Failure("JoernFailed", f"{path.name} cannot be read: {error.strerror}") from error
        if len(body) > most:
            raise Failure("JoernFailed", f"{path.name} has more than {most >> 20} MiB.")
        try:
            return model.model_validate_json(body)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise Failure("JoernFailed", f"{path.name} is not of its form: {where}: {first['msg']}") from error


def message(found: dict[str, Any], failure: Failure | None) -> bytes:
    """The termination message: what was found, and the failure, in at most 4,096 bytes."""
    if failure is not None:
        found = found | {"failure": {"reason": failure.reason, "message": termination.shorten(failure.message, 1000)}}
    body = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    if len(body) > termination.LIMIT:
        raise ValueError(f"the message has {len(body)} bytes")
    return body


def names(found: list[str]) -> list[str]:
    """Names of languages, as many as a message holds."""
    return [one[:64] for one in found[:_CUT]]
