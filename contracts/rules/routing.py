"""Lines of a hard rule that decide where content goes, whatever a model says of it. Pure.

    enforce: route InfoOnly when kind email and sender *@lists.example.com
    enforce: route ExecuteHigh when source jira::SHOP-*
    enforce: route Defer 120 when title "weekly report"
    enforce: route Ask "Who has approved this?" when contains "bank account"
    enforce: route Fail "Orders by chat are not taken." when kind chat and contains order
    enforce: ask-before-execute "Which order is it?" when kind email and not contains "order number"
    enforce: never-index when kind email and title confidential

`route` holds always, `ask-before-execute` only for what would be executed, now or later; what is `never-index` is
judged and not stored. `when` is mandatory: clauses joined by `and`, each a subject and a pattern, `not` before it turns
it round. Patterns of kind, source, sender and file are names in which `*` stands for anything; title and contains look
for words. `host` belongs to lines about links (`contracts.rules.links`). Case and spacing never matter, nor do
characters without a width. There are no regular expressions: the time of a comparison grows with the text alone.

`contracts.rules.enforce_lines` finds the lines, `kb.rules.enforce` holds them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from crds import patterns
from crds.pendingtask import Decision

ROUTE = "route"
ASK_FIRST = "ask-before-execute"
NEVER_INDEX = "never-index"
VERBS = frozenset({ROUTE, ASK_FIRST, NEVER_INDEX})
MOST_CLAUSES = 8
MOST_MINUTES = 366 * 24 * 60
_MOST_CHARS = 500
_TOKEN = re.compile(r'"([^"]*)"|([^\s"]+)')
# Letters are told apart, but not by what cannot be seen: soft hyphens, zero-width and directional characters.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff]"
)


class Subject(StrEnum):
    """What a clause looks at."""

    KIND = "kind"
    SOURCE = "source"
    SENDER = "sender"
    FILE = "file"
    TITLE = "title"
    CONTAINS = "contains"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Clause:
    """`pattern` is folded; `negated` turns it round."""

    subject: Subject
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Ruling:
    """One line. `minutes` is for Defer alone, `text` the question of Ask or the reason of Fail.

    `decision` is None for never-index.
    """

    verb: str
    decision: Decision | None
    when: tuple[Clause, ...]
    minutes: int = 0
    text: str = ""

    @property
    def effect(self) -> str:
        """The line without its conditions and its text."""
        if self.verb != ROUTE or self.decision is None:
            return self.verb
        return f"{ROUTE} {self.decision.value}" + (f" {self.minutes}" if self.minutes else "")


@dataclass(frozen=True, slots=True)
class Facts:
    """What clauses look at, folded. `senders` are mail addresses; empty where none is known."""

    kind: str
    source: str
    title: str
    text: str
    senders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    host: str = ""

    @classmethod
    def of(
        cls,
        *,
        kind: str,
        source: str,
        title: str,
        text: str,
        senders: Collection[str] = (),
        files: Collection[str] = (),
        host: str = "",
    ) -> Facts:
        """As the source gives them. Time grows with the length of the text."""
        return cls(fold(kind), fold(source), fold(title), fold(text), _folded(senders), _folded(files), fold(host))

    def meet(self, when: Sequence[Clause]) -> bool:
        """Whether all clauses hold."""
        return all(self._holds(one) is not one.negated for one in when)

    def _holds(self, clause: Clause) -> bool:
        pattern = clause.pattern
        match clause.subject:
            case Subject.KIND:
                return patterns.matches(pattern, self.kind)
            case Subject.SOURCE:
                return patterns.matches(pattern, self.source)
            case Subject.SENDER:
                return any(patterns.matches(pattern, one) for one in self.senders)
            case Subject.FILE:
                return any(patterns.matches(pattern, one) for one in self.files)
            case Subject.TITLE:
                return pattern in self.title
            case Subject.CONTAINS:
                return pattern in self.title or pattern in self.text
            case Subject.HOST:
                return patterns.matches(pattern, self.host)


def fold(text: str) -> str:
    """Without differences of case, spacing, width of letters, and without what cannot be seen."""
    return " ".join(_UNSEEN.sub("", unicodedata.normalize("NFKC", text)).casefold().split())


def parse(verb: str, words: str) -> Ruling:
    """The line `enforce: verb words`. Raises ValueError with what is wrong and what to write."""
    head, clauses = conditional(words)
    if verb == NEVER_INDEX:
        if head:
            raise ValueError(f"nothing stands between `{NEVER_INDEX}` and `when`")
        return Ruling(verb, None, clauses)
    if verb == ASK_FIRST:
        if len(head) != 1:
            raise ValueError(f'give the question in quotation marks, such as {ASK_FIRST} "Is it paid?" when kind email')
        return Ruling(verb, Decision.ASK, clauses, text=_text(head[0][0]))
    return _routed(head, clauses)


def conditional(
    words: str, subjects: Collection[Subject] = frozenset(Subject) - {Subject.HOST}
) -> tuple[list[tuple[str, bool]], tuple[Clause, ...]]:
    """What stands before `when`, as words and texts in quotation marks (True), and the conditions after it.

    Raises ValueError, as `parse` does, also for conditions that look at something else than `subjects`.
    """
    tokens = _tokens(words)
    names = [token.casefold() if not quoted else "" for token, quoted in tokens]
    if "when" not in names:
        raise ValueError("it has no conditions; end it with `when` and at least one, such as `when kind email`")
    cut = names.index("when")
    clauses = _clauses(tokens[cut + 1 :], [one for one in Subject if one in subjects])
    return tokens[:cut], clauses


def _routed(head: list[tuple[str, bool]], clauses: tuple[Clause, ...]) -> Ruling:
    known = {one.value.casefold(): one for one in Decision}
    decision = known.get(head[0][0].casefold()) if head else None
    if decision is None:
        raise ValueError(f"`route` leads to one of {', '.join(one.value for one in Decision)}")
    more = [token for token, _ in head[1:]]
    if decision is Decision.DEFER:
        if len(more) != 1 or not re.fullmatch(r"[0-9]{1,6}", more[0]) or not 1 <= int(more[0]) <= MOST_MINUTES:
            raise ValueError(f"give the minutes after `route Defer`, 1 to {MOST_MINUTES}")
        return Ruling(ROUTE, decision, clauses, minutes=int(more[0]))
    if decision in (Decision.ASK, Decision.FAIL):
        if len(more) != 1:
            what = "question" if decision is Decision.ASK else "reason"
            raise ValueError(f"give one {what} in quotation marks after `route {decision.value}`")
        return Ruling(ROUTE, decision, clauses, text=_text(more[0]))
    if more:
        raise ValueError(f"nothing stands between `route {decision.value}` and `when`")
    return Ruling(ROUTE, decision, clauses)


def _clauses(tokens: list[tuple[str, bool]], subjects: Sequence[Subject]) -> tuple[Clause, ...]:
    made: list[Clause] = []
    while True:
        negated = bool(tokens) and not tokens[0][1] and tokens[0][0].casefold() == "not"
        tokens = tokens[1:] if negated else tokens
        if len(tokens) < 2:
            raise ValueError("each condition is a subject and a pattern, such as `kind email`")
        (subject, _), (pattern, _), *rest = tokens
        if subject.casefold() not in [one.value for one in subjects]:
            known = ", ".join(one.value for one in subjects)
            raise ValueError(f"{subject!r} is no condition here; give one of {known}")
        made.append(Clause(Subject(subject.casefold()), _pattern(pattern), negated))
        if len(made) > MOST_CLAUSES:
            raise ValueError(f"it has more than {MOST_CLAUSES} conditions; make several lines")
        if not rest:
            return tuple(made)
        if rest[0][1] or rest[0][0].casefold() != "and":
            raise ValueError(
                f"conditions are joined by `and`, not {rest[0][0]!r}; several words stand in quotation marks"
            )
        tokens = rest[1:]


def _tokens(words: str) -> list[tuple[str, bool]]:
    """Words, and texts in quotation marks (True)."""
    if words.count('"') % 2:
        raise ValueError("a quotation mark is not closed")
    return [(found[1] or "", True) if found[2] is None else (found[2], False) for found in _TOKEN.finditer(words)]


def _pattern(text: str) -> str:
    made = fold(text)
    if not made or len(text) > _MOST_CHARS or made.count("*") > patterns.MOST_STARS:
        raise ValueError(
            f"a pattern has 1 to {_MOST_CHARS} characters that can be seen, at most {patterns.MOST_STARS} of them `*`"
        )
    return made


def _text(text: str) -> str:
    made = " ".join(text.split())
    if not made or len(made) > _MOST_CHARS:
        raise ValueError(f"a question or reason has 1 to {_MOST_CHARS} characters")
    return made


def _folded(texts: Collection[str]) -> tuple[str, ...]:
    return tuple(fold(one) for one in texts)
