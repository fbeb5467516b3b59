"""What a user's text orders, as far as code can be sure of it. Pure.

A sentence orders when it begins with a verb of an order (`lexicon`), perhaps behind a greeting or a request; each
further such verb behind a comma or an "and" begins another order. Nothing is ordered by a question, unless it begins as
a request; by what stands in quotation marks, in a quoted line or in a block of code; by a sentence with a "not" or an
"if"; and by what follows a colon in an order, to the end of the text, which is what the order is about.

An order names a recipient by an address right behind the verb or a word such as "to", and an issue or a page by a
number that the noun, a "#" or an address on the web says to be one. All that is not understood is not ordered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator_job.delegation import clauses, lexicon, words
from orchestrator_job.delegation.lexicon import Group
from orchestrator_job.delegation.tools.port import Deed

_IMPLIED = re.compile(r"^(?:to|cc|bcc|an|komu|kopie)[:=](?=\S*@)", re.IGNORECASE)
_DIGITS = re.compile(r"#?(\d{1,12})")
_HASH = re.compile(r"(?:[\w.-]+/[\w.-]+)?#(\d{1,12})")
_KEY = re.compile(r"[A-Z][A-Z0-9_]+-\d{1,12}")
_ISSUE_URL = re.compile(r"https?://\S*/(?:issues|browse|tickets)/([A-Za-z0-9_]*-?\d{1,12})/?")
_PAGE_URL = re.compile(r"https?://\S*(?:/pages/|[?&]pageId=)(\d{1,20})(?:[/?&#]\S*)?")
_NEAR = 3
"""Words between "to" and an address in brackets, as in "to the team (team@example.com)"."""
_OBJECT = 6
"""Words between a verb and its object."""
_FAR = 40
"""Words between what an order names and the word that says what it is; farther away it is named by nothing."""


@dataclass(frozen=True, slots=True)
class Order:
    """One order. `text`: its words; `about`: what follows a colon. `dictates`: it says itself what is to be written.
    `answers`: it is an answer to something, which has its own subject. `uses`: it says where others are done. Names are
    canonical words."""

    deeds: frozenset[Deed]
    recipients: frozenset[str]
    issues: frozenset[str]
    pages: frozenset[str]
    text: words.Words
    places: bool
    dictates: bool
    answers: bool
    uses: bool

    def names(self, kind: str, aim: Sequence[str]) -> bool:
        """Whether it names this aim of that kind (`recipient`, `issue`, `page`; else any word)."""
        named = {"recipient": self.recipients, "issue": self.issues, "page": self.pages}.get(kind)
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
    said = clause.said
    what = _what(said)
    issues, pages = _numbered(said, lexicon.ISSUES, _ISSUE_URL), _numbered(said, lexicon.PAGES, _PAGE_URL)
    if not issues and before is not None and len(said) > 1 and said[1].word in lexicon.PRONOUNS:
        issues = before.issues
    # "No." before a number is none.
    refused = any(
        one.word in lexicon.STATES or (one.word in lexicon.NO and not (one.word == "no" and "." in one.after))
        for one in said[:what]
    )
    deeds = frozenset[Deed]() if refused else _deeds(clause)
    raw = " ".join(one.raw for one in said)
    return Order(
        deeds=deeds,
        recipients=_recipients(said, answers=Group.ANSWER in clause.groups),
        issues=issues,
        pages=pages,
        text=words.Words([f"{raw} {clause.about}" if Group.REMEMBER in clause.groups else raw]),
        places=any("/" in one.raw for one in said),
        dictates=bool(clause.about) or any(one.word == clauses.QUOTE for one in said) or _says_that(said),
        answers=Group.ANSWER in clause.groups,
        uses=Group.USE in clause.groups and not refused,
    )


def _what(said: Sequence[clauses.Word]) -> int:
    """Where it begins to say what it is about."""
    return next((at for at, one in enumerate(said) if at and one.word in lexicon.WHAT), len(said))


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
    if Group.SAY in groups and len(said) > 2 and said[1].word in lexicon.PRONOUNS and said[2].word == "on":
        found.add(Deed.COMMENT)
    if groups & {Group.CREATE} and _object(said, lexicon.ISSUES):
        found.add(Deed.CREATE)
    # Who changes a title adds nothing to the text.
    titled = Group.CHANGE in groups and any(map(lexicon.TITLES.fullmatch, nouns))
    if groups & {Group.ADD, Group.WRITE, Group.CHANGE} and not titled:
        found.add(Deed.APPEND)
    if groups & {Group.ADD, Group.CHANGE, Group.RENAME, Group.REPLACE}:
        found |= _parts(groups, nouns)
    return frozenset(found)


_ALONE = {
    Group.ANSWER: Deed.REPLY,
    Group.INVITE: Deed.INVITE,
    Group.COMMENT: Deed.COMMENT,
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
        if at and noun.fullmatch(one.plain) and not _names_number(said, at):
            before = [each.word for each in said[max(at - 2, 1) : at]]
            if (free and at <= _OBJECT) or before[-1:] == ["als"] or before[:1] == ["as"] or before[-1:] == ["jako"]:
                return True
        free = free and (not at or one.word not in certain)
    return False


def _names_number(said: Sequence[clauses.Word], at: int) -> bool:
    """Whether "issue" is followed by its number; a comment's noun never is."""
    return (
        lexicon.COMMENTS.fullmatch(said[at].plain) is None
        and at + 1 < len(said)
        and (_DIGITS.fullmatch(said[at + 1].raw) is not None or said[at + 1].word in lexicon.NUMBER - {"und", "no"})
    )


def _recipients(said: Sequence[clauses.Word], *, answers: bool) -> frozenset[str]:
    """The addresses that the order sends to; none where it is not plain which of them they are, as in "send the mail to
    Eve to Ann"."""
    found: dict[int, str] = {}
    taken: dict[int, bool] = {}
    what = _what(said)
    for at, one in enumerate(said):
        if "@" not in one.word or one.word.endswith(("'s", "’s")):  # noqa: RUF001
            continue
        if not _IMPLIED.match(one.raw) and not _receives(said, at, taken, answers=answers):
            taken[at] = False
        elif not found or _joined(said, at, max(found)):
            found[at] = one.word
            taken[at] = True
        elif at > what > min(found):
            taken[at] = False
        else:
            return frozenset()
    return frozenset(found.values())


def _joined(said: Sequence[clauses.Word], at: int, last: int) -> bool:
    """Whether an address goes on with the recipients before it: behind a comma, an "and" or a "cc"."""
    if any(set(one.after) & {",", ";"} for one in said[last : min(at, last + 1)]):
        return True
    between = [one.word for one in said[max(last + 1, at - _FAR) : at]]
    return any(one in lexicon.COPIES or one in lexicon.ANY_AND for one in between[:1] + between[-2:])


def _receives(said: Sequence[clauses.Word], at: int, earlier: dict[int, bool], *, answers: bool) -> bool:
    """Whether the nearest word before the address that says so makes it a recipient."""
    between: list[clauses.Word] = []
    for back in range(at - 1, max(at - _FAR, 0) - 1, -1):
        one = said[back]
        if back in earlier:
            return earlier[back] and all(each.word in lexicon.ANY_AND or each.raw.istitle() for each in between)
        if back == 0 or one.word in lexicon.TO or (answers and one.word in lexicon.OF):
            near = said[at].bracketed and len(between) <= _NEAR
            return near or all(each.raw[:1].isupper() or each.word in lexicon.MAILS for each in between)
        if one.word in lexicon.WHAT or one.word in lexicon.ABOUT or one.word in lexicon.OF:
            return False
        between.append(one)
    return False


def _numbered(said: Sequence[clauses.Word], noun: re.Pattern[str], url: re.Pattern[str]) -> frozenset[str]:
    """The numbers and keys that are named as an issue, or as a page."""
    issues = noun is lexicon.ISSUES
    found: list[str] = []
    last, what = -1, _what(said)
    for at, one in enumerate(said):
        digits, address = _DIGITS.fullmatch(one.raw), url.fullmatch(one.raw)
        named = ""
        if address is not None:
            named = address[1]
        elif issues and (hashed := _HASH.fullmatch(one.raw)):
            named = hashed[1]
        elif issues and _KEY.fullmatch(one.raw):
            named = one.raw
        elif digits is not None and (_of_noun(said, at, noun) or _goes_on(said, at, last)):
            named = digits[1]
        if not named or not (_goes_on(said, at, last) or _aimed(said, at, late=bool(found) and at > what)):
            continue
        found.append(named.casefold())
        last = at
    return frozenset(found)


def _of_noun(said: Sequence[clauses.Word], at: int, noun: re.Pattern[str]) -> bool:
    back = at - 1
    if back >= 0 and said[back].word in lexicon.NUMBER:
        back -= 1
    return back >= 0 and noun.fullmatch(said[back].plain) is not None and not set(said[back].after) & set(",;")


def _goes_on(said: Sequence[clauses.Word], at: int, last: int) -> bool:
    """Whether the number follows one that was named, as in "issues 12, 13 and 14"."""
    between = said[last + 1 : at] if at - last <= 2 else []
    return 0 <= last >= at - 2 and (
        (not between and "," in said[last].after) or (len(between) == 1 and between[0].word in lexicon.ANY_AND)
    )


def _aimed(said: Sequence[clauses.Word], at: int, *, late: bool) -> bool:
    """Whether it is what the order is at, and not what it is about. `late`: it is named behind another one, and in what
    that one is about."""
    first = max(at - _FAR, 0)
    for back in range(at - 1, first, -1):
        word = said[back].word
        if not late and (word in lexicon.TO or word in lexicon.AT):
            return True
        if late or word in lexicon.WHAT or word in lexicon.ABOUT or word in lexicon.OF:
            return False
    return not late and first == 0
