"""Hard rules and their versions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, StringConstraints, ValidationInfo, field_validator

from contracts.api import message
from contracts.rules import enforce_lines
from crds import scope
from kb.api.words import Name, Text


class RuleType(StrEnum):
    """What a hard rule is about (seed 002 "Rule Types")."""

    ROUTING = "ROUTING"
    NOTIFICATION = "NOTIFICATION"
    VALIDATION = "VALIDATION"
    PROCESSING = "PROCESSING"
    SECURITY = "SECURITY"
    CUSTOM = "CUSTOM"


RuleKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,119}$")]


LEARNED = "learned."
"""How the keys of rules begin that runs may write: so no rule of a person is replaced."""


class RuleDraft(message.Request):
    """A new version of the rule `ruleKey` of exactly this scope; for lines `enforce: ...` see `contracts.rules`."""

    scope: scope.Scope
    rule_key: RuleKey
    rule_type: RuleType
    rule_content: Annotated[Text, StringConstraints(max_length=20_000)]
    description: Annotated[str, StringConstraints(max_length=2000)] = ""
    created_by: Name

    @field_validator("rule_content")
    @classmethod
    def _enforceable(cls, text: str, given: ValidationInfo) -> str:
        # The type stands before: it is not there where it is wrong itself.
        permitting = bool(enforce_lines.permitted(text))
        if permitting and given.data.get("rule_type", RuleType.SECURITY) is not RuleType.SECURITY:
            raise ValueError("a line with permit stands in a rule of type SECURITY alone; give ruleType SECURITY")
        return text


class Rule(message.Reply):
    """One version of a rule. The one in force has neither `supersededAt` nor `deletedAt`."""

    scope: scope.Scope
    rule_key: str
    rule_type: RuleType
    rule_content: str
    description: str
    version: int
    created_at: AwareDatetime
    created_by: str
    superseded_at: AwareDatetime | None = None
    deleted_at: AwareDatetime | None = None
    deleted_by: str | None = None


class Rules(message.Reply):
    """Rules by key, or the versions of one, newest first."""

    rules: list[Rule]
