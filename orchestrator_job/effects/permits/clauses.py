"""A text as its sentences, and a sentence as the clauses that may order something: where a user's order begins. Pure.

What is quoted is taken out of a user's text first. Which clause orders what is in `orders`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator_job.effects.permits import lexicon, words
from orchestrator_job.effects.permits.lexicon import Group

_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*>[^\n]*$|`[^`]*(?:`|\Z)|“[^”]*(?:”|\Z)|„[^“”]*(?:[“”]|\Z)|«[^»]*(?:»|\Z)|»[^«]*(?:«|\Z)"
    r"|~~~.*?(?:~~~|\Z)|‹[^›]*(?:›|\Z)|(?<!\d)\"(?:[^\"]|(?<=\d)\")*(?:\"|\Z)"  # noqa: RUF001
    r"|(?<!\w)['‘‚](?:[^'’‘]|(?<=\w)['’](?=\w))*['’‘](?!\w)",  # noqa: RUF001
    re.DOTALL | re.MULTILINE,
)
QUOTE = "\ufffc"
"""Stands where the user quoted something."""
_ITEM = re.compile(r"^[ \t]*(?:[-*•+]|\(?\d{1,3}[.)]|[a-z][.)])(?=[ \t]|$)", re.IGNORECASE)
_CHUNK = re.compile(r"[,;](?=[^\s,;])|\S+?(?=[,;]\S)|\S+")
_LEADING, _TRAILING = "([{<*_¡¿\"'„“‚«‹", ")]}>*_\"'”“’»›"  # noqa: RUF001
_ENDS = ".!?…。？！؟"  # noqa: RUF001
_TOOLS = re.compile(r"(?:[a-z]+_)+(?:mail|issue|comment|page|invitation|knowledge|branch|procedure|rule)")
_LAX = 5
"""Words before the verb of what a retrieved text orders, as in "you must now send"."""
_HEADING = 6
"""Words of a heading."""
_FILLED = 3
"""Words such as "then" between an "and" and the verb."""


@dataclass(slots=True)
class Word:
    """`raw` as written without what surrounds it, `word` as it is compared, `after` the punctuation behind it."""

    raw: str
    word: str
    after: str
    bracketed: bool
    ends: bool

    @property
    def plain(self) -> str:
        """Without marks."""
        return lexicon.bare(self.word)


@dataclass(slots=True)
class Sentence:
    """`about`: all of the text behind a colon in it."""

    said: list[Word] = field(default_factory=list)
    asks: bool = False
    paragraph: int = 0
    about: str = ""


@dataclass(slots=True)
class Clause:
    """From one verb to the next, or from a request to its infinitive. `request`: its first word is surely a verb."""

    groups: frozenset[Group]
    said: list[Word]
    about: str = ""
    request: bool = False


def ordered(text: str) -> Iterator[tuple[Sentence, list[Clause]]]:
    """Each sentence of a user's text, and its clauses that begin with a verb of an order."""
    for sentence in sentences(_QUOTED.sub(f" {QUOTE} ", text), user=True):
        yield sentence, list(clauses(sentence))


def may_order(sentence: Sentence) -> bool:
    """Whether a sentence of a retrieved text may be meant as an order: read generously."""
    for at, one in enumerate(sentence.said):
        if _TOOLS.fullmatch(one.word):
            return True
        near = at < _LAX or _follows(sentence.said, at)
        groups = _groups(lexicon.VERBS, one.word) | _groups(lexicon.INFINITIVES, one.word)
        if near and groups - {Group.LOOK, Group.USE} and not _is_noun(sentence.said, at):
            return True
    return False


def _follows(said: Sequence[Word], at: int) -> bool:
    """Whether a clause may begin here."""
    before = said[at - 1]
    return bool(set(before.after) & set(",;:")) or before.word in lexicon.ANY_AND


def sentences(text: str, *, user: bool) -> Iterator[Sentence]:
    """Sentences, items of lists and lines that begin with a capital letter. A user's text ends with the first colon,
    unless a heading such as "Task:" is before it: the rest is what an order is about, or what another says."""
    now, paragraph, place = Sentence(), 0, 0
    for line in text.splitlines(keepends=True):
        start, place = place, place + len(line)
        item = _ITEM.match(line)
        body = line[item.end() :] if item else line
        stripped = body.strip()
        if now.said and (not stripped or item or stripped[0].isupper()):
            yield now
            now = Sentence(paragraph=paragraph)
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
                if user and not _heads(now.said):
                    now.about = text[start + (len(line) - len(body)) + chunk.end() :]
                    yield now
                    return
                yield now
                now = Sentence(paragraph=paragraph)
            elif word.ends:
                now.asks = any(one in word.after for one in "?？؟")  # noqa: RUF001
                yield now
                now = Sentence(paragraph=paragraph)
    if now.said:
        yield now


def _heads(said: Sequence[Word]) -> bool:
    """Whether it is a heading behind which the user orders."""
    if len(said) > _HEADING:
        return False
    named = [one for one in said if one.word in lexicon.HEADS]
    numbered = [one for one in said if named and any(map(str.isdigit, one.word))]
    rest = [one for one in said if one not in named and one not in numbered[:1]]
    do = [one.word for one in said] == ["to", "do"]
    return bool(named or do) and all(one.word in lexicon.HEADING for one in rest)


def _word(chunk: str) -> Word | None:
    core = chunk.lstrip(_LEADING)
    raw = core.rstrip(_TRAILING + _ENDS + ",;:")
    after = core[len(raw) :]
    folded = words.trimmed(unicodedata.normalize("NFKC", raw).casefold())
    if not raw or (not folded and raw != QUOTE):
        return None
    ends = any(one in after for one in _ENDS) and folded not in lexicon.SHORTENED
    return Word(raw, folded or raw, after, chunk[0] in "(<", ends)


def clauses(sentence: Sentence) -> Iterator[Clause]:
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
            yield Clause(late, said[max(begin - 1, 0) :], sentence.about, request=True)
        return
    opened = refused = False
    single: bool | None = None
    for at in range(begin + 1, len(said)):
        if _opens(said, at):
            opened, single = True, False if said[at].word in lexicon.SEVERAL else None
        elif said[at].word in lexicon.SEVERAL:
            single = False
        elif said[at].word in lexicon.SINGLE and single is None:
            single = True
        groups = _further(said, at, request=bool(request))
        if groups and opened and not _resumes(said, at, refused=refused, single=bool(single)):
            refused = True
        elif groups:
            places.append((at, groups))
            opened = refused = False
    for number, (at, groups) in enumerate(places):
        last = number + 1 == len(places)
        words_ = said[at : None if last else places[number + 1][0]]
        yield Clause(groups, words_, sentence.about if last else "", request=bool(request) and number == 0)


def _opens(said: Sequence[Word], at: int) -> bool:
    """Whether a clause of its own may begin here, whose verbs are no orders: "who may read and comment on it"."""
    one = said[at]
    if one.word in ("to", "zu") and at + 1 < len(said):
        following = said[at + 1]
        noun = any(each.fullmatch(following.plain) for each in (lexicon.ISSUES, lexicon.PAGES))
        known = following.word in lexicon.DETERMINERS | lexicon.PRONOUNS | lexicon.ME
        return following.raw.isalpha() and following.raw.islower() and not noun and not known
    subject = one.word in lexicon.PERSONS or (one.word in lexicon.SUBJECTS_OF and bool(said[at - 1].after))
    return subject or (one.word in lexicon.WHAT and not (at == 1 and one.word in lexicon.THAT))


def _resumes(said: Sequence[Word], at: int, *, refused: bool, single: bool) -> bool:
    """Whether the order goes on behind such a clause: behind a semicolon, or a comma with an "and". `refused`: another
    verb of it stood behind a comma, so that the "and" may belong to its list. `single`: its verb needs no comma."""
    if ";" in said[at - 1].after:
        return True
    back, then = at - 1, False
    while back > 0 and said[back].word in lexicon.FILLERS and not said[back].after:
        then, back = True, back - 1
    joined = said[back].word in lexicon.ANDS and (single or bool(set(said[back - 1].after) & {",", ";"}))
    return joined and (then or not refused)


_PLEASE = frozenset(("please", "bitte", "prosím", "prosim"))


def _opened(said: Sequence[Word]) -> int:
    """Behind a greeting."""
    if said and said[0].word in lexicon.GREETINGS:
        for at, one in enumerate(said[:4]):
            if "," in one.after:
                return at + 1
    return 0


def _requested(said: Sequence[Word], start: int) -> tuple[str, ...]:
    for size in (2, 1):
        head = tuple(one.word for one in said[start : start + size])
        if head in lexicon.REQUESTS:
            return head
    return ()


def _verb(said: Sequence[Word], at: int, *, request: bool) -> frozenset[Group]:
    """What the word at this place orders, if an order begins here."""
    found = _groups(lexicon.VERBS, said[at].word)
    if not found and request:
        found = _groups(lexicon.INFINITIVES, said[at].word)
    return frozenset() if _is_noun(said, at) else found


def groups_of(said: Sequence[Word]) -> frozenset[Group]:
    """What these words may order, wherever a verb stands among them."""
    tables = (lexicon.VERBS, lexicon.INFINITIVES)
    return frozenset[Group]().union(*(_groups(table, one.word) for one in said for table in tables))


def _groups(table: Mapping[str, Mapping[str, frozenset[Group]]], word: str) -> frozenset[Group]:
    none: frozenset[Group] = frozenset()
    return none.union(*table.get(word, {}).values())


def _is_noun(said: Sequence[Word], at: int) -> bool:
    after = said[at + 1].word if at + 1 < len(said) and not said[at].after else ""
    if said[at].word == "open":
        return after not in lexicon.OPENS
    if said[at].word in lexicon.NOUNS_TO and after == "to":
        return True
    if after in lexicon.ANY_AND and at + 2 < len(said) and said[at + 2].word in lexicon.VERBS:
        # "Draft and send ..." orders; "answer and comment are late" does not.
        return at + 3 < len(said) and said[at + 3].word in lexicon.NOUN
    return after in lexicon.NOUN or (said[at].word in lexicon.UPDATES and after in lexicon.NOUN_ON)


def _late(said: Sequence[Word], begin: int) -> frozenset[Group] | None:
    """What an infinitive orders that stands at the end of a clause."""
    for at in range(begin + 1, len(said)):
        if said[at].word in lexicon.INFINITIVES and (said[at].after or at + 1 == len(said)):
            return _groups(lexicon.INFINITIVES, said[at].word)
    return None


def _further(said: Sequence[Word], at: int, *, request: bool) -> frozenset[Group]:
    """What the word orders, if another order of the sentence begins with it; "cc" goes on with the one before."""
    if said[at].word in lexicon.COPIES:
        return frozenset()
    before = at - 1
    while at - before < _FILLED and before > 0 and said[before].word in lexicon.FILLERS and not said[before].after:
        before -= 1
    languages = lexicon.VERBS.get(said[at].word, {}) or (lexicon.INFINITIVES.get(said[at].word, {}) if request else {})
    joined = any(said[before].word in lexicon.AND[one] for one in languages)
    # What somebody said is no order: "she said, send it".
    listed = bool(set(said[before].after) & {",", ";"}) and said[before].word not in lexicon.SAID
    return _verb(said, at, request=request) if joined or listed else frozenset()
