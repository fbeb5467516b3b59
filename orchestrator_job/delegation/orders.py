"""What a user's text orders, as far as code can be sure of it. Pure.

A sentence orders when it begins with a verb of an order (`lexicon`), perhaps behind a greeting or a request; each
further such verb behind a comma or an "and" begins another order. Nothing is ordered by a question, unless it begins as
a request; by what stands in quotation marks, in a quoted line or in a block of code; by a sentence with a "not" or an
"if"; and by what follows a colon, to the end of the text: it is what an order is about, or what another says, unless a
heading such as "Task:" is before it.

What an order names is in `aims`. All that is not understood is not ordered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator_job.delegation import aims, clauses, lexicon, words
from orchestrator_job.delegation.lexicon import Group
from orchestrator_job.delegation.tools.port import Deed

_OBJECT = 6
"""Words between a verb and its object."""


@dataclass(frozen=True, slots=True)
class Order:
    """One order. `text`: its words; `about`: what follows a colon. `dictates`: it says itself what is to be written.
    `answers`: it is an answer to something, which has its own subject. `uses`: it says where others are done. Names are
    canonical words."""

    deeds: frozenset[Deed]
    recipients: frozenset[str]
    issues: frozenset[str]
    pages: frozenset[str]
    repositories: frozenset[str]
    connections: frozenset[str]
    text: words.Words
    places: bool
    dictates: bool
    answers: bool
    uses: bool

    def names(self, kind: str, aim: Sequence[str]) -> bool:
        """Whether it names this aim of that kind (`recipient`, `issue`, `page`, `repository`, `connection`; else any
        word)."""
        named = {
            "recipient": self.recipients,
            "issue": self.issues,
            "page": self.pages,
            "repository": self.repositories,
            "connection": self.connections,
        }.get(kind)
        return self.text.names(aim) if named is None else len(aim) == 1 and aim[0] in named


def read(text: str) -> tuple[Order, ...]:
    """The orders in a text that a user wrote, in their order."""
    found: list[Order] = []
    for sentence in clauses.ordered(text):
        before: Order | None = None
        for clause in sentence:
            before = _order(clause, before)
            found.append(before)
    return tuple(found)


def passages(text: str) -> tuple[list[str], list[str]]:
    """A retrieved text as the passages that order something, each from its verb's sentence to the end of the paragraph,
    and as the other sentences. Read generously: whatever may be meant as an order is one."""
    ordering: list[str] = []
    rest: list[str] = []
    ordered = -1
    for sentence in clauses.sentences(text, user=False):
        words_ = " ".join(one.raw for one in sentence.said)
        if sentence.paragraph == ordered:
            ordering[-1] = f"{ordering[-1]} {words_}"
        elif clauses.may_order(sentence):
            ordered = sentence.paragraph
            ordering.append(words_)
        else:
            rest.append(words_)
    return ordering, rest


# --- one order -----------------------------------------------------------------------------------------------------


def _order(clause: clauses.Clause, before: Order | None) -> Order:
    said, groups = clause.said, clause.groups
    numbered = aims.issues(said)
    issues = frozenset(aims.number(said[at]) for at in numbered)
    if not issues and before is not None and len(said) > 1 and said[1].word in lexicon.PRONOUNS:
        issues = before.issues
    # "No." before a number is none.
    refused = any(
        one.word in lexicon.NO and not (one.word == "no" and "." in one.after) for one in said[: aims.what(said)]
    )
    deeds = frozenset[Deed]() if refused else _deeds(clause)
    uses = bool(groups & {Group.USE, Group.WORK}) and not refused
    recipients = aims.recipients(said, answers=Group.ANSWER in groups)
    raw = " ".join(one.raw for one in said)
    return Order(
        deeds=deeds,
        recipients=recipients,
        issues=issues,
        pages=frozenset(aims.number(said[at]) for at in aims.pages(said)),
        repositories=aims.repositories(said, numbered, creates=Deed.CREATE in deeds, works=uses),
        connections=aims.connections(said, numbered, mails=bool(recipients), uses=Group.USE in groups),
        text=words.Words([f"{raw} {clause.about}" if Group.REMEMBER in groups else raw]),
        places=any("/" in one.raw for one in said),
        dictates=bool(clause.about) or any(one.word == clauses.QUOTE for one in said) or _says_that(said),
        answers=Group.ANSWER in groups,
        uses=uses,
    )


def _says_that(said: Sequence[clauses.Word]) -> bool:
    return any(
        one.word in lexicon.THAT and at and not (at + 1 < len(said) and said[at + 1].word in {*lexicon.TO, "on", "in"})
        for at, one in enumerate(said)
    )


def _deeds(clause: clauses.Clause) -> frozenset[Deed]:
    """What the order is about, by its verb and by the object that some verbs need."""
    groups, said = clause.groups, clause.said
    nouns = [one.plain for one in said]
    found = {deed for group, deed in _ALONE.items() if group in groups}
    if groups & {Group.SEND, Group.ANSWER, Group.INVITE}:
        found.add(Deed.MAIL)
        found |= {Deed.ATTACH} if any(map(lexicon.FILES.fullmatch, nouns)) else set()
        found |= {Deed.INVITE} if any(map(lexicon.INVITATIONS.fullmatch, nouns)) else set()
    if groups & {Group.WRITE, Group.SAY, Group.ADD} and _object(said, lexicon.COMMENTS):
        found.add(Deed.COMMENT)
    if Group.SAY in groups and "on" in [one.word for one in said[1:3] if one.word not in lexicon.PRONOUNS][:1]:
        found.add(Deed.COMMENT)
    if groups & {Group.CREATE} and _object(said, lexicon.ISSUES):
        found.add(Deed.CREATE)
    # Who changes a title adds nothing to the text.
    titled = Group.CHANGE in groups and any(map(lexicon.TITLES.fullmatch, nouns))
    if groups & {Group.ADD, Group.WRITE, Group.CHANGE} and not titled:
        found.add(Deed.APPEND)
    if groups & {Group.ADD, Group.CHANGE, Group.RENAME, Group.REPLACE}:
        found |= _parts(groups, nouns)
    if Group.ASSIGN in groups and any(map(lexicon.LABELS.fullmatch, nouns)):
        found.add(Deed.RELABEL)
    return frozenset(found)


_ALONE = {
    Group.ANSWER: Deed.REPLY,
    Group.INVITE: Deed.INVITE,
    Group.COMMENT: Deed.COMMENT,
    Group.LABEL: Deed.RELABEL,
    Group.CLOSE: Deed.CLOSE,
    Group.REOPEN: Deed.REOPEN,
    Group.REPLACE: Deed.REPLACE,
    Group.REMEMBER: Deed.REMEMBER,
}


def _parts(groups: frozenset[Group], nouns: Sequence[str]) -> set[Deed]:
    """What of an issue or a page is changed: what is named, else its text."""
    titles, labels, bodies = (
        any(map(one.fullmatch, nouns)) for one in (lexicon.TITLES, lexicon.LABELS, lexicon.BODIES)
    )
    found = {Deed.RETITLE} if titles or Group.RENAME in groups else set()
    found |= {Deed.RELABEL} if labels else set()
    text = Group.CHANGE in groups and (bodies or not found)
    return found | ({Deed.CHANGE} if text else set())


def _object(said: Sequence[clauses.Word], noun: re.Pattern[str]) -> bool:
    """Whether a new one is made: a noun behind the verb without a number, and nothing between them says that it is a
    certain one, or another's."""
    certain = lexicon.CERTAIN | lexicon.WHAT | lexicon.OF | lexicon.ABOUT
    if noun is lexicon.ISSUES:
        certain |= lexicon.TO - {"an"}
    free = True
    for at, one in enumerate(said):
        if at and noun.fullmatch(one.plain) and not _has_number(said, at):
            before = [each.word for each in said[max(at - 2, 1) : at]]
            if (free and at <= _OBJECT) or before[-1:] == ["als"] or before[:1] == ["as"] or before[-1:] == ["jako"]:
                return True
        about_it = at + 1 < len(said) and said[at + 1].word in lexicon.THEREOF
        free = free and (not at or one.word not in certain or about_it)
    return False


def _has_number(said: Sequence[clauses.Word], at: int) -> bool:
    """Whether "issue" is followed by its number; a comment's noun never is."""
    return (
        lexicon.COMMENTS.fullmatch(said[at].plain) is None
        and at + 1 < len(said)
        and (aims.is_number(said[at + 1]) or said[at + 1].word in lexicon.NUMBER - {"und", "no"})
    )
