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
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator_job.delegation import lexicon, words
from orchestrator_job.delegation.lexicon import Group
from orchestrator_job.delegation.tools.port import Deed

_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*>[^\n]*$|`[^`]*(?:`|\Z)|“[^”]*(?:”|\Z)|„[^“”]*(?:[“”]|\Z)|«[^»]*(?:»|\Z)|»[^«]*(?:«|\Z)"
    r"|\"[^\"]*(?:\"|\Z)|(?<!\w)['‘‚][^'’‘]*['’‘](?!\w)",  # noqa: RUF001
    re.DOTALL | re.MULTILINE,
)
_QUOTE = "\ufffc"
"""Stands where the user quoted something."""
_ITEM = re.compile(r"^[ \t]*(?:[-*•+]|\(?\d{1,3}[.)]|[a-z][.)])(?=[ \t]|$)", re.IGNORECASE)
_CHUNK = re.compile(r"[,;](?=[^\s,;])|\S+?(?=[,;]\S)|\S+")
_LEADING, _TRAILING = "([{<*_¡¿\"'„“‚«‹", ")]}>*_\"'”“’»›"  # noqa: RUF001
_ENDS = ".!?…。？！؟"  # noqa: RUF001
_IMPLIED = re.compile(r"^(?:to|cc|bcc|an|komu|kopie)[:=](?=\S*@)", re.IGNORECASE)
_DIGITS = re.compile(r"#?(\d{1,12})")
_HASH = re.compile(r"(?:[\w.-]+/[\w.-]+)?#(\d{1,12})")
_KEY = re.compile(r"[A-Z][A-Z0-9_]+-\d{1,12}")
_ISSUE_URL = re.compile(r"https?://\S*/(?:issues|browse|tickets)/([A-Za-z0-9_]*-?\d{1,12})/?")
_PAGE_URL = re.compile(r"https?://\S*(?:/pages/|[?&]pageId=)(\d{1,20})(?:[/?&#]\S*)?")
_TOOLS = re.compile(r"(?:[a-z]+_)+(?:mail|issue|comment|page|invitation|knowledge|branch|procedure|rule)")
_NEAR = 3
"""Words between "to" and an address in brackets, as in "to the team (team@example.com)"."""
_OBJECT = 6
"""Words between a verb and its object."""
_LAX = 5
"""Words before the verb of what a retrieved text orders, as in "you must now send"."""
_FAR = 40
"""Words between what an order names and the word that says what it is; farther away it is named by nothing."""


@dataclass(frozen=True, slots=True)
class Order:
    """One order. `text`: its words; `about`: what follows a colon. `dictates`: it says itself what is to be written.
    `answers`: it is an answer to something, which has its own subject. Names are canonical words."""

    deeds: frozenset[Deed]
    recipients: frozenset[str]
    issues: frozenset[str]
    pages: frozenset[str]
    text: words.Words
    places: bool
    dictates: bool
    answers: bool

    def names(self, kind: str, aim: Sequence[str]) -> bool:
        """Whether it names this aim of that kind (`recipient`, `issue`, `page`; else any word)."""
        named = {"recipient": self.recipients, "issue": self.issues, "page": self.pages}.get(kind)
        return self.text.names(aim) if named is None else len(aim) == 1 and aim[0] in named


@dataclass(slots=True)
class _Word:
    """`raw` as written without what surrounds it, `word` as it is compared, `after` the punctuation behind it."""

    raw: str
    word: str
    after: str
    bracketed: bool
    ends: bool

    @property
    def plain(self) -> str:
        return lexicon.bare(self.word)


@dataclass(slots=True)
class _Sentence:
    """`about`: all of the text behind a colon in it."""

    said: list[_Word] = field(default_factory=list)
    asks: bool = False
    paragraph: int = 0
    about: str = ""


@dataclass(slots=True)
class _Clause:
    """From one verb to the next, or from a request to its infinitive."""

    groups: frozenset[Group]
    said: list[_Word]
    about: str = ""


def read(text: str) -> tuple[Order, ...]:
    """The orders in a text that a user wrote, in their order."""
    found: list[Order] = []
    for sentence in _sentences(_QUOTED.sub(f" {_QUOTE} ", text), user=True):
        before: Order | None = None
        for clause in _clauses(sentence):
            before = _order(clause, before)
            found.append(before)
    return tuple(found)


def passages(text: str) -> tuple[list[str], list[str]]:
    """A retrieved text as the passages that order something, each from its verb's sentence to the end of the paragraph,
    and as the other sentences. Read generously: whatever may be meant as an order is one."""
    ordering: list[str] = []
    rest: list[str] = []
    ordered = -1
    for sentence in _sentences(text, user=False):
        words_ = " ".join(one.raw for one in sentence.said)
        if sentence.paragraph == ordered:
            ordering[-1] = f"{ordering[-1]} {words_}"
        elif _may_order(sentence):
            ordered = sentence.paragraph
            ordering.append(words_)
        else:
            rest.append(words_)
    return ordering, rest


def _may_order(sentence: _Sentence) -> bool:
    for at, one in enumerate(sentence.said):
        if _TOOLS.fullmatch(one.word):
            return True
        near = at < _LAX or _follows(sentence.said, at)
        groups = _groups(lexicon.VERBS, one.word) | _groups(lexicon.INFINITIVES, one.word)
        if near and groups - {Group.LOOK} and not _is_noun(sentence.said, at):
            return True
    return False


def _follows(said: Sequence[_Word], at: int) -> bool:
    """Whether a clause may begin here."""
    before = said[at - 1]
    return bool(set(before.after) & set(",;:")) or before.word in lexicon.ANY_AND


def _sentences(text: str, *, user: bool) -> Iterator[_Sentence]:
    """Sentences, items of lists and lines that begin with a capital letter. A user's text ends with the first colon in
    an order: the rest is what that order is about."""
    now, paragraph, place = _Sentence(), 0, 0
    for line in text.splitlines(keepends=True):
        start, place = place, place + len(line)
        item = _ITEM.match(line)
        body = line[item.end() :] if item else line
        stripped = body.strip()
        if now.said and (not stripped or item or stripped[0].isupper()):
            yield now
            now = _Sentence(paragraph=paragraph)
        if not stripped:
            paragraph += 1
            now.paragraph = paragraph
            continue
        for chunk in _CHUNK.finditer(body):
            word = _word(chunk.group())
            if word is None:
                if now.said:
                    now.said[-1].after += chunk.group()
                continue
            now.said.append(word)
            if ":" in word.after and word.word not in lexicon.TO:
                if user and next(_clauses(now), None) is not None:
                    now.about = text[start + (len(line) - len(body)) + chunk.end() :]
                    yield now
                    return
                yield now
                now = _Sentence(paragraph=paragraph)
            elif word.ends:
                now.asks = any(one in word.after for one in "?？؟")  # noqa: RUF001
                yield now
                now = _Sentence(paragraph=paragraph)
    if now.said:
        yield now


def _word(chunk: str) -> _Word | None:
    core = chunk.lstrip(_LEADING)
    raw = core.rstrip(_TRAILING + _ENDS + ",;:")
    after = core[len(raw) :]
    folded = words.trimmed(unicodedata.normalize("NFKC", raw).casefold())
    if not raw or (not folded and raw != _QUOTE):
        return None
    ends = any(one in after for one in _ENDS) and folded not in lexicon.SHORTENED
    return _Word(raw, folded or raw, after, chunk[0] in "(<", ends)


def _clauses(sentence: _Sentence) -> Iterator[_Clause]:
    """The orders of a sentence; none where it does not begin with one."""
    said = sentence.said
    start = _opened(said)
    request = _requested(said, start)
    begin = start + len(request)
    while begin < len(said) and said[begin].word in lexicon.FILLERS:
        if said[begin].word in _PLEASE:
            request = request or (said[begin].word,)
        begin += 1
    if (sentence.asks and not request) or begin >= len(said):
        return
    places = [(begin, groups)] if (groups := _verb(said, begin, request=bool(request))) else []
    if not places:
        late = _late(said, begin) if request else None
        if late is not None:
            # "Bitte ... an Ann schicken": the verb is behind what it is about.
            yield _Clause(late, said[max(begin - 1, 0) :], sentence.about)
        return
    for at in range(begin + 1, len(said)):
        if groups := _further(said, at, request=bool(request)):
            places.append((at, groups))
    for number, (at, groups) in enumerate(places):
        last = number + 1 == len(places)
        yield _Clause(groups, said[at : None if last else places[number + 1][0]], sentence.about if last else "")


_PLEASE = frozenset(("please", "bitte", "prosím", "prosim"))


def _opened(said: Sequence[_Word]) -> int:
    """Behind a greeting."""
    if said and said[0].word in lexicon.GREETINGS:
        for at, one in enumerate(said[:4]):
            if "," in one.after:
                return at + 1
    return 0


def _requested(said: Sequence[_Word], start: int) -> tuple[str, ...]:
    for size in (2, 1):
        head = tuple(one.word for one in said[start : start + size])
        if head in lexicon.REQUESTS:
            return head
    return ()


def _verb(said: Sequence[_Word], at: int, *, request: bool) -> frozenset[Group]:
    """What the word at this place orders, if an order begins here."""
    found = _groups(lexicon.VERBS, said[at].word)
    if not found and request:
        found = _groups(lexicon.INFINITIVES, said[at].word)
    return frozenset() if _is_noun(said, at) else found


def _groups(table: Mapping[str, Mapping[str, frozenset[Group]]], word: str) -> frozenset[Group]:
    none: frozenset[Group] = frozenset()
    return none.union(*table.get(word, {}).values())


def _is_noun(said: Sequence[_Word], at: int) -> bool:
    after = said[at + 1].word if at + 1 < len(said) and not said[at].after else ""
    if said[at].word == "open":
        return after not in lexicon.OPENS
    if said[at].word in lexicon.NOUNS_TO and after == "to":
        return True
    return after in lexicon.NOUN or (said[at].word in lexicon.UPDATES and after in lexicon.NOUN_ON)


def _late(said: Sequence[_Word], begin: int) -> frozenset[Group] | None:
    """What an infinitive orders that stands at the end of a clause."""
    for at in range(begin + 1, len(said)):
        if said[at].word in lexicon.INFINITIVES and (said[at].after or at + 1 == len(said)):
            return _groups(lexicon.INFINITIVES, said[at].word)
    return None


def _further(said: Sequence[_Word], at: int, *, request: bool) -> frozenset[Group]:
    """What the word orders, if another order of the sentence begins with it; "cc" goes on with the one before."""
    if said[at].word in lexicon.COPIES:
        return frozenset()
    before = at - 1
    while at - before < _NEAR and before > 0 and said[before].word in lexicon.FILLERS and not said[before].after:
        before -= 1
    languages = lexicon.VERBS.get(said[at].word, {}) or (lexicon.INFINITIVES.get(said[at].word, {}) if request else {})
    joined = any(said[before].word in lexicon.AND[one] for one in languages)
    # What somebody said is no order: "she said, send it".
    listed = bool(set(said[before].after) & {",", ";"}) and said[before].word not in lexicon.SAID
    return _verb(said, at, request=request) if joined or listed else frozenset()


# --- one order -----------------------------------------------------------------------------------------------------


def _order(clause: _Clause, before: Order | None) -> Order:
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
        dictates=bool(clause.about) or any(one.word == _QUOTE for one in said) or _says_that(said),
        answers=Group.ANSWER in clause.groups,
    )


def _what(said: Sequence[_Word]) -> int:
    """Where it begins to say what it is about."""
    return next((at for at, one in enumerate(said) if at and one.word in lexicon.WHAT), len(said))


def _says_that(said: Sequence[_Word]) -> bool:
    return any(
        one.word in lexicon.THAT and at and not (at + 1 < len(said) and said[at + 1].word in {*lexicon.TO, "on", "in"})
        for at, one in enumerate(said)
    )


def _deeds(clause: _Clause) -> frozenset[Deed]:
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


def _object(said: Sequence[_Word], noun: re.Pattern[str]) -> bool:
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


def _names_number(said: Sequence[_Word], at: int) -> bool:
    """Whether "issue" is followed by its number; a comment's noun never is."""
    return (
        lexicon.COMMENTS.fullmatch(said[at].plain) is None
        and at + 1 < len(said)
        and (_DIGITS.fullmatch(said[at + 1].raw) is not None or said[at + 1].word in lexicon.NUMBER - {"und", "no"})
    )


def _recipients(said: Sequence[_Word], *, answers: bool) -> frozenset[str]:
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


def _joined(said: Sequence[_Word], at: int, last: int) -> bool:
    """Whether an address goes on with the recipients before it: behind a comma, an "and" or a "cc"."""
    if any(set(one.after) & {",", ";"} for one in said[last : min(at, last + 1)]):
        return True
    between = [one.word for one in said[max(last + 1, at - _FAR) : at]]
    return any(one in lexicon.COPIES or one in lexicon.ANY_AND for one in between[:1] + between[-2:])


def _receives(said: Sequence[_Word], at: int, earlier: dict[int, bool], *, answers: bool) -> bool:
    """Whether the nearest word before the address that says so makes it a recipient."""
    between: list[_Word] = []
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


def _numbered(said: Sequence[_Word], noun: re.Pattern[str], url: re.Pattern[str]) -> frozenset[str]:
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


def _of_noun(said: Sequence[_Word], at: int, noun: re.Pattern[str]) -> bool:
    back = at - 1
    if back >= 0 and said[back].word in lexicon.NUMBER:
        back -= 1
    return back >= 0 and noun.fullmatch(said[back].plain) is not None and not set(said[back].after) & set(",;")


def _goes_on(said: Sequence[_Word], at: int, last: int) -> bool:
    """Whether the number follows one that was named, as in "issues 12, 13 and 14"."""
    between = said[last + 1 : at] if at - last <= 2 else []
    return 0 <= last >= at - 2 and (
        (not between and "," in said[last].after) or (len(between) == 1 and between[0].word in lexicon.ANY_AND)
    )


def _aimed(said: Sequence[_Word], at: int, *, late: bool) -> bool:
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
