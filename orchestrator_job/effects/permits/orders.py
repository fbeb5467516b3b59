"""What a user's text orders, as far as code can be sure of it. Pure.

A sentence orders when it begins with a verb of an order (`lexicon`), perhaps behind a greeting or a request; each
further such verb behind a comma or an "and" begins another order. Nothing is ordered by a question, unless it begins as
a request; by what stands in quotation marks, in a quoted line or in a block of code; by a sentence with a "not" or a
condition; by one that a later sentence takes back; and by what follows a colon, to the end of the text: it is what an
order is about, or what another says, unless a heading such as "Task:" is before it.

What an order names is in `targets`. All that is not understood is not ordered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator_job.effects.permits import clauses, lexicon, targets, words
from orchestrator_job.effects.permits.lexicon import Group
from orchestrator_job.effects.tools.port import Deed

_OBJECT = 6
"""Words between a verb and its object."""
_NEGATED = 4
"""Letters that a Czech verb with "ne" before it has more than."""
_SHORT, _START = 2, 5
"""Words of a sentence that says no more than "do not", and those in which its verb and its object stand."""


@dataclass(frozen=True, slots=True)
class Order:
    """One order. `text`: its words; `about`: what follows a colon. `dictates`: it says itself what is to be written.
    `answers`: it is an answer to something, which has its own subject. `uses`: it says where others are done. `via`:
    the Connections that it surely names as such. Names are canonical words."""

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
    groups: frozenset[Group]
    via: frozenset[str]

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


def read(*texts: str, undated: Sequence[str] = ()) -> tuple[Order, ...]:
    """The orders in texts that a user wrote one after another, without those that a later sentence takes back. Those of
    `undated`, which were written at any time, take back all."""
    found: list[Order] = []
    for sentence, parts in (one for text in texts for one in clauses.ordered(text)):
        refused = any(map(_refused, parts))
        found = _kept(found, sentence, parts, refused=refused)
        before: Order | None = None
        for clause in parts:
            before = _order(clause, before, refused=refused)
            found.append(before)
    for sentence, parts in (one for text in undated for one in clauses.ordered(text)):
        found = _kept(found, sentence, parts, refused=any(map(_refused, parts)))
    return tuple(found)


def passages(text: str) -> tuple[list[str], list[str]]:
    """A retrieved text as what orders something, from the first such sentence to the end of the text, and as the
    sentences before it. Read generously: whatever may be meant as an order is one, and what it is about may follow
    anywhere behind it."""
    ordering: list[str] = []
    rest: list[str] = []
    for sentence in clauses.sentences(text, user=False):
        words_ = " ".join(one.raw for one in sentence.said)
        (ordering if ordering or clauses.may_order(sentence) else rest).append(words_)
    return [" ".join(ordering)] if ordering else [], rest


# --- one order -----------------------------------------------------------------------------------------------------


def _order(clause: clauses.Clause, before: Order | None, *, refused: bool) -> Order:
    said, groups, verb = clause.said, clause.groups, clause.request
    deeds = frozenset[Deed]() if refused else _deeds(clause)
    numbered = targets.issues(said, verb=verb)
    issues = frozenset(targets.number(said[at]) for at in numbered)
    if not issues and before is not None and len(said) > 1:
        # "and close it", "and comment that it is done"
        at_it = Deed.COMMENT in deeds and not any(_is_at(one) for one in said[1 : targets.what(said)])
        issues = before.issues if at_it or said[1].word in lexicon.PRONOUNS else issues
    uses = bool(groups & {Group.USE, Group.WORK}) and not refused
    recipients = targets.recipients(said, answers=Group.ANSWER in groups, verb=verb)
    raw = " ".join(one.raw for one in said)
    return Order(
        deeds=deeds,
        recipients=recipients,
        issues=issues,
        pages=frozenset(targets.number(said[at]) for at in targets.pages(said, verb=verb)),
        repositories=targets.repositories(said, numbered, creates=Deed.CREATE in deeds, works=uses),
        connections=targets.connections(said, numbered, mails=bool(recipients), uses=Group.USE in groups),
        text=words.Words([f"{raw} {clause.about}" if Group.REMEMBER in groups else raw]),
        places=any("/" in one.raw for one in said),
        dictates=bool(clause.about) or any(one.word == clauses.QUOTE for one in said) or _says_that(said),
        answers=Group.ANSWER in groups,
        uses=uses,
        groups=groups,
        via=targets.via(said),
    )


def _is_at(one: clauses.Word) -> bool:
    return one.word not in lexicon.ARTICLES and (one.word in lexicon.TO or one.word in lexicon.AT)


# --- what is not ordered ---------------------------------------------------------------------------------------------


def _refused(clause: clauses.Clause) -> bool:
    """Whether it is ordered under a condition, or not at all. What does not hold may be what is to be written."""
    because, inside = False, False
    # Whatever follows "remember that" is to be remembered.
    for at, one in enumerate(clause.said[:2] if Group.REMEMBER in clause.groups else clause.said):
        if one.word in lexicon.IF and _is_condition(clause, at):
            return True
        if _denies(one) and (one.bracketed or not inside):
            return True
        because = because or (at > 1 and one.word in lexicon.REASONS)
        inside = because and (inside or one.word in lexicon.REASONS) and not one.after
    return False


def _denies(one: clauses.Word) -> bool:
    # "No." before a number does not.
    return one.word in lexicon.NO and not (one.word == "no" and "." in one.after)


def _is_condition(clause: clauses.Clause, at: int) -> bool:
    said, word = clause.said, clause.said[at].word
    following = [one.word for one in said[at + 1 : at + 3]]
    if not following or (word == "once" and said[at - 1].word == "at"):
        return False
    if word == "soon":
        return following[0] == "as" and "possible" not in following
    if word not in lexicon.ASKS:
        return True
    between = said[1:at]
    if clause.groups <= {Group.LOOK}:
        return len(between) > 1
    # "Write ann@example.com when it is": nothing else is written.
    writes = bool(clause.groups & _WRITING) and word != "if"
    return not (writes and all(_addresses(one) for one in between))


_WRITING = frozenset((Group.SEND, Group.ANSWER, Group.COMMENT, Group.SAY))


def _addresses(one: clauses.Word) -> bool:
    """Whether the word belongs to an aim."""
    noun = lexicon.ISSUES.fullmatch(one.plain) or lexicon.PAGES.fullmatch(one.plain)
    known = one.word in lexicon.TO | lexicon.AT | lexicon.FILLERS | lexicon.NUMBER
    return bool(noun) or known or not one.raw.isalpha() or one.raw[0].isupper()


def _kept(
    found: list[Order], sentence: clauses.Sentence, parts: Sequence[clauses.Clause], *, refused: bool
) -> list[Order]:
    """The orders that a later sentence does not take back: with "stop", by an order of that kind that is refused, or
    because it says "not" of an aim."""
    said = sentence.said
    head = said[0].word
    if head in lexicon.STOPS or (head in lexicon.NO and len(said) > 1 and "," in said[0].after):
        return []
    czech = len(head) > _NEGATED and head[:2] in ("ne", "ně") and head[:3] != "nej"
    if not (refused if parts else czech or any(map(_denies, said))):
        return found
    named = frozenset(name for one in said for name in (one.word, targets.number(one)))
    start = said[:_START]
    groups = frozenset[Group]().union(*(one.groups for one in parts)) or clauses.groups_of(start)
    aimed = any("@" in one or any(map(str.isdigit, one)) for one in named)
    if not aimed and (parts or czech or any(one.word in ("do", "don't", "never", "please") for one in start[:2])):
        if not groups and (czech or len(said) <= _SHORT or _refers(start)):
            return []
        alike = groups - {Group.LOOK}
    else:
        alike = frozenset()
    return [one for one in found if not (alike & one.groups or named & (one.recipients | one.issues | one.pages))]


def _refers(said: Sequence[clauses.Word]) -> bool:
    return any(one.word in lexicon.PRONOUNS | lexicon.THAT for one in said)


# --- what it is about ------------------------------------------------------------------------------------------------


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
        found |= {Deed.ATTACH} if targets.attaches(said) else set()
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
        and (targets.is_number(said[at + 1]) or said[at + 1].word in lexicon.NUMBER - {"und", "no"})
    )
