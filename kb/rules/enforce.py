"""Hard rules and what models said of a document: who has the last word. Pure.

A document meets rules before models read it (`match_rules`); they decide after models have spoken
(`RuleMatches.apply_rules`). Where several decide, the one that does least without a person wins: Fail, Ask, InfoOnly,
Defer (the longest), ExecuteHigh, Execute. So neither the order of rules nor that of scopes matters. A rule that cannot
be enforced is not passed over: a person gets the task.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from email import errors as mail_errors
from email import parser, utils
from typing import Protocol

from contracts.rules import enforce_lines, routing
from contracts.rules.extraction import Steer
from crds import scope
from crds.pendingtask import Decision
from kb import api, identity, visibility
from kb.rules import overrides

_CAREFUL = (
    Decision.FAIL,
    Decision.ASK,
    Decision.INFO_ONLY,
    Decision.DEFER,
    Decision.EXECUTE_HIGH,
    Decision.EXECUTE,
)
_EXECUTED = frozenset({Decision.DEFER, Decision.EXECUTE_HIGH, Decision.EXECUTE})
# Tasks that a person made on purpose: they are executed whatever the hints say.
_ORDERED = frozenset({"user_task", "scheduled_task"})
_MAILS = frozenset({"email", "mail"})
_HEADERS_CHARS = 65_536
_MOST_QUESTIONS = 16
PROMPT_RULES_CHARS = 4000


class Port(Protocol):
    """Raises `kb.errors.Away` when it does not answer."""

    async def in_force(self, viewer: scope.Scope) -> list[api.Rule]:
        """Every rule that holds for the viewer."""
        ...


class Nothing:
    """A knowledge base without rules."""

    async def in_force(self, viewer: scope.Scope) -> list[api.Rule]:
        return []


@dataclass(frozen=True, slots=True)
class RuleMatches:
    """The lines whose conditions a document meets, and the rules that cannot be read, with the reason."""

    ordered: bool = False
    lines: tuple[tuple[api.Rule, routing.Ruling], ...] = ()
    broken: tuple[tuple[api.Rule, str], ...] = field(default=())
    prompt_rules: tuple[str, ...] = ()
    """The rules of type CUSTOM in words, for the model that judges: whole, the widest first, up to
    PROMPT_RULES_CHARS."""
    rules_too_long: tuple[api.Rule, ...] = ()
    overrides: overrides.Overrides = overrides.NONE
    """How models read it."""
    under: str = ""
    """Which versions were in force (`in_force`)."""

    @property
    def unindexed(self) -> list[api.RuleActed]:
        """The rules for which the document is not stored; it is stored when there is none."""
        return [_acted(rule, line.effect) for rule, line in self.lines if line.verb == routing.NEVER_INDEX]

    def apply_rules(self, hints: api.Hints) -> tuple[api.Hints, list[api.RuleActed]]:
        """The hints with the last word of the rules, and the rules that had it. Without any, the hints as they are."""
        others = [_acted(rule, "left out of the prompt: too long") for rule in self.rules_too_long]
        others += [_acted(rule, line.effect) for rule, line in self.overrides.lines]
        if self.broken:
            which = "; ".join(f"{one.rule_key!r} (version {one.version}): {why}" for one, why in self.broken[:3])
            failure = f"A hard rule cannot be enforced: {which}"[:1000]
            acted = [_acted(one, "cannot be enforced") for one, _ in self.broken]
            return _decided(hints, Decision.FAIL, failure=failure), [*acted, *others]
        routed = [(rule, line) for rule, line in self.lines if line.verb == routing.ROUTE]
        named = {line.decision for _, line in routed}
        decision = next((one for one in _CAREFUL if one in named), None)
        deciding = [(rule, line) for rule, line in routed if line.decision is decision]
        first = [(rule, line) for rule, line in self.lines if line.verb == routing.ASK_FIRST]
        if first and self._executes(decision, hints):
            decision, deciding = Decision.ASK, first
        elif first and decision is Decision.ASK:
            deciding = deciding + first
        if decision is None:
            return hints, others
        minutes = max(line.minutes for _, line in deciding)
        deciding = [(rule, line) for rule, line in deciding if line.minutes == minutes]
        texts = list(dict.fromkeys(line.text for _, line in deciding if line.text))
        settled = _decided(
            hints,
            decision,
            minutes=minutes,
            questions=list(dict.fromkeys([*texts, *hints.questions]))[:_MOST_QUESTIONS],
            failure=" ".join(texts),
        )
        return settled, [*(_acted(rule, line.effect) for rule, line in deciding), *others]

    def _executes(self, decision: Decision | None, hints: api.Hints) -> bool:
        if decision is not None:
            return decision in _EXECUTED
        return self.ordered or (hints.has_actionable_content and not hints.failure)


def match_rules(rules: Iterable[api.Rule], request: api.IngestRequest, text: str) -> RuleMatches:
    """What those rules say about a document that hold in its scope. Time grows with its text and the conditions."""
    about = _facts(request, text)
    lines: list[tuple[api.Rule, routing.Ruling]] = []
    broken: list[tuple[api.Rule, str]] = []
    prompt_rules: list[str] = []
    rules_too_long: list[api.Rule] = []
    override_lines: list[tuple[api.Rule, Steer]] = []
    for rule in sorted(rules, key=_place):
        if not visibility.governs(rule.scope, request.scope):
            continue
        try:
            found = enforce_lines.routing_lines(rule.rule_content)
            override_lines += overrides.matching(rule, about, enforce_lines.steered(rule.rule_content))
        except ValueError as error:
            broken.append((rule, str(error)))
            continue
        lines += [(rule, line) for line in found if about.meet(line.when)]
        words = enforce_lines.spoken(rule.rule_content) if rule.rule_type is api.RuleType.CUSTOM else ""
        if words and sum(map(len, prompt_rules)) + len(words) <= PROMPT_RULES_CHARS:
            prompt_rules.append(words)
        elif words:
            rules_too_long.append(rule)
    return RuleMatches(
        about.kind in _ORDERED,
        tuple(lines),
        tuple(broken),
        tuple(prompt_rules),
        tuple(rules_too_long),
        overrides.chosen(override_lines),
    )


def in_force(rules: Iterable[api.Rule]) -> str:
    """A hash of which versions of rules are in force; "" without any."""
    listed = sorted((identity.owner(one.scope), one.rule_key, one.version) for one in rules)
    return identity.digest(json.dumps(listed)) if listed else ""


def _facts(request: api.IngestRequest, text: str) -> routing.Facts:
    files = request.attachments or ()
    return facts(kind=request.kind, source=request.source_urn, title=request.title, text=text, files=files)


def facts(*, kind: str, source: str, title: str, text: str, files: Collection[str]) -> routing.Facts:
    """What rules look at of a document as it was sent; a mail's text says who sent it."""
    known = senders(text) if kind.casefold() in _MAILS else ()
    return routing.Facts.of(kind=kind, source=source, title=title, text=text, senders=known, files=files)


def senders(mail: str) -> Sequence[str]:
    """The addresses of a mail's From lines; none when it has no headers."""
    try:
        read = parser.HeaderParser().parsestr(mail[:_HEADERS_CHARS], headersonly=True)
        lines = [str(one) for one in read.get_all("From", [])]
        return [address for _, address in utils.getaddresses(lines) if address]
    except (mail_errors.MessageError, ValueError, IndexError, RecursionError):
        return ()


def _decided(
    hints: api.Hints, decision: Decision, *, minutes: int = 0, questions: Sequence[str] = (), failure: str = ""
) -> api.Hints:
    # What the model noticed stays as it is: the task's record shows both.
    return hints.model_copy(
        update={
            "route": decision.value,
            "defer_minutes": minutes,
            "questions": list(questions) if decision is Decision.ASK else [],
            "failure": failure if decision is Decision.FAIL else "",
        }
    )


def _place(rule: api.Rule) -> tuple[str, ...]:
    return rule.scope.client_id, rule.scope.group_id, rule.scope.project_id, rule.rule_key


def _acted(rule: api.Rule, effect: str) -> api.RuleActed:
    return api.RuleActed(scope=rule.scope, rule_key=rule.rule_key, version=rule.version, effect=effect)
