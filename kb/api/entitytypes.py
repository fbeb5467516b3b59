"""Entity types of an owner's own."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field, StringConstraints, model_validator

from contracts.api import message
from crds import scope
from kb.api.words import Name

MOST = 40
"""Types that one owner may have: each is a line of the prompt for every chunk."""


class EntityTypeDraft(message.Request):
    """A type: its name as it stands in keys (`medicine:ibuprofen`), and one line that tells a model what it is."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{1,39}$")]
    description: Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True)]


class EntityTypesDraft(message.Request):
    """All types of exactly this scope, which replace those that it had; an empty list leaves it without."""

    scope: scope.Scope
    types: list[EntityTypeDraft] = Field(max_length=MOST)
    by: Name

    @model_validator(mode="after")
    def _once(self) -> EntityTypesDraft:
        names = [one.name for one in self.types]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"types: {twice[0]!r} is given twice")
        return self


class EntityType(message.Reply):
    """A type that counts in a scope; `scope` is whose it is, `by` who decided and `at` when."""

    name: str
    description: str
    scope: scope.Scope
    by: str
    at: AwareDatetime


class EntityTypes(message.Reply):
    """The types that count in a scope beside those that every extraction knows, in order of their names."""

    types: list[EntityType]
