"""A file of bearer tokens: which scopes each of them may name, and whether it may write.

The knowledge base and the API of the sources process read the same format (docs/tokens.md).

A viewer's group is a claim of the request, so a bound leaves no room for claims: a token of one project cannot name
another group, a token of one group cannot name a project.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pydantic
import structlog
import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from crds import access, errors, priority, scope

log = structlog.get_logger(__name__)
EVERY = "*"
_REMEDY = "Give `tokens`, a list of {name, sha256, scopes, write, erase, ceiling, principals}."
_Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$", to_lower=True)]
_Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class Unusable(errors.Permanent):
    """The file cannot be used."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Bound(_Model):
    """`clientId` "*" is every scope; otherwise that client, narrowed to a project or a group where one is named."""

    client_id: str = Field(pattern=r"^(\*|[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?)$")
    project_id: str = Field(default="", pattern=scope.OPTIONAL_IDENTIFIER)
    group_id: str = Field(default="", pattern=scope.OPTIONAL_IDENTIFIER)

    def widest(self) -> scope.Scope | None:
        """The widest scope within, which is what a caller means that names none; None where every scope is."""
        if self.client_id == EVERY:
            return None
        return scope.Scope(client_id=self.client_id, project_id=self.project_id, group_id=self.group_id)

    def covers(self, where: scope.Scope) -> bool:
        """Whether `where` lies within."""
        if self.client_id == EVERY:
            return True
        if where.client_id != self.client_id:
            return False
        if self.project_id:
            return where.project_id == self.project_id and where.group_id in ("", self.group_id)
        if self.group_id:
            return not where.project_id and where.group_id == self.group_id
        return True


class Grant(_Model):
    """What a token allows. The file holds the token's SHA-256, so that reading the file does not give it away.

    `erase` allows to forget a whole scope within the bounds; `write` alone does not. `ceiling` (P0 to P3) is the most
    urgent priority that counts; without one every priority does. With `principals` its questions are those of a user:
    they see what a source shows to these, and no question can name others. It neither writes nor erases: what it would
    change may be what it is not shown.
    """

    name: _Name
    sha256: _Sha256
    scopes: tuple[Bound, ...] = Field(min_length=1)
    write: bool = False
    erase: bool = False
    ceiling: priority.Priority | None = None
    principals: tuple[access.Principal, ...] = Field(default=(), max_length=access.MOST_OF_ONE)

    @pydantic.field_validator("ceiling", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        found = priority.parse(value) if isinstance(value, str) else value
        if found is None and value is not None:
            raise ValueError("is no priority: P0, P1, P2 or P3")
        return found

    @pydantic.field_validator("principals", mode="after")
    @classmethod
    def _reads(cls, value: tuple[str, ...], info: pydantic.ValidationInfo) -> tuple[str, ...]:
        given = [name for name in ("write", "erase") if info.data.get(name)]
        if value and given:
            raise ValueError(f"a token with principals reads alone: take {' and '.join(given)} or principals away")
        return value

    def allows(self, where: scope.Scope, *, writing: bool) -> bool:
        """Whether this token may read (or write) in `where`; global data may be read by every token."""
        if where.is_global and not writing:
            return True
        return (self.write or not writing) and any(bound.covers(where) for bound in self.scopes)


class _File(_Model):
    tokens: tuple[Grant, ...]


def read(path: Path) -> tuple[Grant, ...]:
    """The grants of a YAML or JSON file. Raises `Unusable` naming the field."""
    try:
        return _File.model_validate(yaml.safe_load(path.read_text())).tokens
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"{path} cannot be read: {error}", field="tokensFile") from error
    except yaml.YAMLError as error:
        # The parser's own words show the line, and who mistakes the format may have written a token into it.
        line = error.problem_mark.line + 1 if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark else 1
        raise Unusable(
            f"{path} is no YAML from line {line} on",
            field="tokensFile",
            remedy=_REMEDY,
        ) from None
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise Unusable(
            f"{path}: {place}: {first['msg']}",
            field=f"tokensFile.{place}",
            remedy=_REMEDY,
        ) from error


def match(grants: Sequence[Grant], token: str) -> Grant | None:
    """The grant of a token, compared in constant time."""
    digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
    found = None
    for grant in grants:
        if hmac.compare_digest(grant.sha256, digest):
            found = grant
    return found


class Book:
    """The grants of a file that may change while the process runs; a file that became wrong leaves the former ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._look()
        self._grants = read(path)

    def find(self, token: str) -> Grant | None:
        """The grant of `token`, if it has one now."""
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._grants = read(self._path)
            except Unusable as error:
                log.warning("the file of tokens is not taken", reason=error.message)
        return match(self._grants, token)

    def _look(self) -> tuple[int, int]:
        try:
            found = self._path.stat()
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_ino
