"""What an order names as its aims: recipients, issues, pages, repositories and Connections. Pure.

The first aim stands at the verb or behind a word such as "to". Further ones count only in a plain list: between them
are commas, words such as "and", and what belongs to an aim (its noun, its preposition, a name before an address). What
stands behind the list must belong to the order. Any other word may be the predicate of a new sentence, as in "Close
issue 13, issue 14 stays open", and then nothing but the first aim is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from orchestrator_job.effects.permits import clauses, lexicon, words

Said = Sequence[clauses.Word]

_IMPLIED = re.compile(r"^(?:to|cc|bcc|an|komu|kopie)[:=](?=\S*@)", re.IGNORECASE)
_DIGITS = re.compile(r"#?(\d{1,12})")
_HASH = re.compile(r"(?:([\w.-]+/[\w.-]+))?#(\d{1,12})")
_KEY = re.compile(r"[A-Z][A-Z0-9_]+-\d{1,12}")
_PROJECT = re.compile(r"[A-Z][A-Z0-9_]+")
_ISSUE_URL = re.compile(r"https?://\S*/(?:issues|browse|tickets)/([A-Za-z0-9_]*-?\d{1,12})/?")
_PAGE_URL = re.compile(r"https?://\S*(?:/pages/|[?&]pageId=)(\d{1,20})(?:[/?&#]\S*)?")
_NEAR = 3
"""Words between "to" and an address in brackets, as in "to the team (team@example.com)"."""
_GAP = 6
"""Words between two aims of a list."""
_FAR = 40
"""Words between what an order names and the word that says what it is; farther away it is named by nothing."""
_BREAKS = frozenset(",;:-–—&")  # noqa: RUF001
"""Behind one of these a new sentence may begin."""


def what(said: Said) -> int:
    """Where it begins to say what it is about."""
    return next((at for at, one in enumerate(said) if at and one.word in lexicon.WHAT), len(said))


# --- recipients ------------------------------------------------------------------------------------------------------


def recipients(said: Said, *, answers: bool, verb: bool) -> frozenset[str]:
    """The addresses that the order sends to; none where it is not plain which of them they are, as in "send the mail to
    Eve to Ann". `answers`: "from" names one, too. `verb`: the first word is surely none of a noun."""
    places = [
        at
        for at, one in enumerate(said)
        if at and "@" in one.word and not one.word.endswith(("'s", "’s"))  # noqa: RUF001
    ]
    first, passed = None, set[int]()
    for at in places:
        if _receives(said, at, passed, answers=answers):
            first = at
            break
        passed.add(at)
    if first is None or not _leads(said, first) or _elsewhere(said, first):
        return frozenset()
    dative = all(_named(one) or one.word in lexicon.MAILS | lexicon.FILLERS for one in said[1:first])
    later = {at for at in places if at > first}
    found = _listed(said, first, later, _between_addresses, dative=dative, clause=True, verb=verb)
    last = found[-1] if found else first
    until = next((at for at in range(last, len(said)) if _broken(said[at]) or said[at].word in lexicon.WHAT), len(said))
    for at in places:
        # "Send the summary of the mails to Eve to Ann."
        if last < at <= until and _receives(said, at, passed, answers=answers):
            return frozenset()
    return frozenset(said[at].word for at in found)


def _receives(said: Said, at: int, passed: Collection[int], *, answers: bool) -> bool:
    """Whether the nearest word before the address that says so makes it a recipient. `passed`: addresses that none
    does."""
    if _IMPLIED.match(said[at].raw):
        return True
    between: list[clauses.Word] = []
    for back in range(at - 1, max(at - _FAR, 0) - 1, -1):
        one = said[back]
        if back in passed:
            return False
        if back == 0 or one.word in lexicon.TO or (answers and one.word in lexicon.OF):
            near = said[at].bracketed and len(between) <= _NEAR
            return near or all(_named(each) or each.word in lexicon.MAILS for each in between)
        if one.word in lexicon.WHAT or one.word in lexicon.ABOUT or one.word in lexicon.OF:
            return False
        between.append(one)
    return False


def _elsewhere(said: Said, at: int) -> bool:
    """Whether something else goes to the address: what the user is to get ("send me the mails to Eve"), or what was
    sent to it."""
    to = next((back for back in range(at - 1, 0, -1) if said[back].word in lexicon.TO), 0)
    before = [one.word for one in said[1:to]]
    for place, word in enumerate(before):
        with_it = all(one in lexicon.JOINS or one in lexicon.TO for one in before[place + 1 :])
        if word in lexicon.WHAT or word in lexicon.SENT or (word in lexicon.ME and not with_it):
            return True
    if before and before[-1] in lexicon.MAILS:
        governors = (one for one in reversed(before) if one in lexicon.OF or one in lexicon.ABOUT)
        return next(governors, "by") not in lexicon.BY_MAIL
    return bool(before) and before[-1].endswith("ed")


def _named(one: clauses.Word) -> bool:
    return one.raw[:1].isupper()


def _between_addresses(said: Said, last: int, at: int) -> bool:
    """Whether what stands between two addresses belongs to the second one: "and also to Bob" before "(bob@...)"."""
    between = said[last + 1 : at]
    names = [one for one in between if _named(one) and one.word not in lexicon.JOINS]
    if said[at].bracketed and said[at - 1].word not in lexicon.TO and not names:
        return False
    rest = [one.word for one in between if one not in names]
    copied = any(one in lexicon.COPIES for one in rest)
    allowed = lexicon.JOINS | lexicon.TO | lexicon.MAILS | (lexicon.WITH_A if copied else frozenset())
    return all(one in allowed for one in rest)


# --- issues and pages ------------------------------------------------------------------------------------------------


def issues(said: Said, *, verb: bool) -> tuple[int, ...]:
    """The places of the numbers and keys that are named as an issue; `number` has each of them. `verb`: the first word
    is surely none of a noun."""
    return _numbered(said, lexicon.ISSUES, _ISSUE_URL, verb=verb)


def pages(said: Said, *, verb: bool) -> tuple[int, ...]:
    """The same of pages."""
    return _numbered(said, lexicon.PAGES, _PAGE_URL, verb=verb)


def is_number(one: clauses.Word) -> bool:
    """Whether it is a number as "13" and "#13"."""
    return _DIGITS.fullmatch(one.raw) is not None


def number(one: clauses.Word) -> str:
    """The number or the key of an issue or a page that a word names."""
    for pattern in (_ISSUE_URL, _PAGE_URL):
        if address := pattern.fullmatch(one.raw):
            return address[1].casefold()
    hashed = _HASH.fullmatch(one.raw)
    return (hashed[2] if hashed else one.raw.lstrip("#")).casefold()


def _numbered(said: Said, noun: re.Pattern[str], url: re.Pattern[str], *, verb: bool) -> tuple[int, ...]:
    issues = noun is lexicon.ISSUES

    def named(at: int) -> bool:
        raw = said[at].raw
        if url.fullmatch(raw) or (_DIGITS.fullmatch(raw) and _of_noun(said, at, noun)):
            return True
        return issues and (_HASH.fullmatch(raw) or _KEY.fullmatch(raw)) is not None

    def between(said: Said, last: int, at: int) -> bool:
        rest = said[last + 1 : at]
        allowed = lexicon.JOINS | lexicon.TO | lexicon.AT | lexicon.ARTICLES | lexicon.NUMBER
        return not said[at].bracketed and all(one.word in allowed or noun.fullmatch(one.plain) for one in rest)

    first = next((at for at in range(len(said)) if named(at) and _aimed(said, at)), None)
    if first is None or not _leads(said, first):
        return ()
    later = {at for at in range(first + 1, len(said)) if named(at) or _DIGITS.fullmatch(said[at].raw)}
    dative = all(noun.fullmatch(one.plain) or one.word in lexicon.NUMBER for one in said[1:first])
    return tuple(_listed(said, first, later, between, dative=dative, verb=verb))


def _of_noun(said: Said, at: int, noun: re.Pattern[str]) -> bool:
    back = at - 1
    if back >= 0 and said[back].word in lexicon.NUMBER:
        back -= 1
    return back >= 0 and noun.fullmatch(said[back].plain) is not None and not _broken(said[back])


def _aimed(said: Said, at: int) -> bool:
    """Whether it is what the order is at, and not what it is about."""
    first = max(at - _FAR, 0)
    for back in range(at - 1, first, -1):
        word = said[back].word
        if word in lexicon.TO or word in lexicon.AT:
            return True
        if word in lexicon.WHAT or word in lexicon.ABOUT or word in lexicon.OF:
            return False
    return first == 0


# --- repositories and Connections ------------------------------------------------------------------------------------


def repositories(said: Said, issues: Sequence[int], *, creates: bool, works: bool) -> frozenset[str]:
    """The repositories, in each of their forms, that are named as the place of what the order is at. `issues`: the
    places of its issues; `creates`: it makes a new issue; `works`: its object is in a repository."""
    places = [at for at in range(1, len(said)) if _is_repository(said, at)]
    until = _until(said, lexicon.ABOUT)
    first = next((at for at in places if _is_place(said, at, issues, until, anything=works)), None)
    if first is None and creates and len(places) == 1 and _is_loose_place(said, places[0]):
        first = places[0]
    found: list[int] = []
    if first is not None:
        at_verb = _governor(said, first, lexicon.REPOSITORIES)[0] == 1
        later = {at for at in places if at > first}
        found = _listed(said, first, later, _between_repositories, dative=at_verb)
    # The address of an issue has its repository; so has "o/r#13".
    forms = [words.forms(said[at].word) for at in [*found, *issues] if "/" in said[at].raw]
    forms += [frozenset((said[at].word,)) for at in found]
    forms += [
        frozenset((hashed[1].casefold(),)) for at in issues if (hashed := _HASH.fullmatch(said[at].raw)) and hashed[1]
    ]
    return frozenset().union(*forms)


def connections(said: Said, issues: Sequence[int], *, mails: bool, uses: bool) -> frozenset[str]:
    """The words that are named as a Connection: "by the connection X", "via X", "use X"; and, unless the order
    `mails`, as a place."""
    about, subject = _until(said, lexicon.ABOUT), _until(said, lexicon.SUBJECTS)
    return frozenset(
        said[at].word
        for at in range(1, len(said))
        if "/" not in said[at].raw
        and (
            _is_connection(said, at, subject, uses=uses)
            or (not mails and _is_place(said, at, issues, about, anything=False))
        )
        and _ends(said, at, after=lexicon.CONNECTIONS)
    )


def via(said: Said) -> frozenset[str]:
    """The words that are surely a Connection's name: "via X", "by the connection X"."""
    found = set[str]()
    for at in range(1, len(said)):
        back, beside = _governor(said, at, lexicon.CONNECTIONS)
        one, by = said[at], said[back].word
        # "über die Sicherung" is what it is about.
        plain = by in lexicon.VIA and not (by in lexicon.VAGUE_VIA and one.raw.isalpha())
        means = plain or (beside and by in lexicon.BY) if back else beside
        noun = lexicon.CONNECTIONS.fullmatch(one.plain) or one.word in lexicon.MAILS | lexicon.ARTICLES
        if means and not noun and one.word not in _behind(said) and "/" not in one.raw:
            found.add(one.word)
    return frozenset(found)


def attaches(said: Said) -> bool:
    """Whether a file is the object of the verb, or what something is sent with."""
    return any(lexicon.FILES.fullmatch(one.plain) and at and _is_sent(said, at) for at, one in enumerate(said))


def _is_sent(said: Said, at: int) -> bool:
    one, following = said[at], said[at + 1] if at + 1 < len(said) else None
    behind = lexicon.TO | lexicon.AT | lexicon.ANY_AND | lexicon.CLOSING | lexicon.ABOUT | lexicon.OF
    # "the file size"
    alone = following is None or one.after or not following.raw.islower() or not following.raw.isalpha()
    if not alone and following is not None and following.word not in behind and not one.plain.endswith("ed"):
        return False
    addressed = False
    for back in range(at - 1, 0, -1):
        word = said[back].word
        addressed = addressed or "@" in word
        if word in lexicon.ARTICLES:
            continue
        if word in lexicon.WITH:
            return True
        if word in _behind(said) and not (addressed and word in lexicon.TO | lexicon.AT):
            return False
    return True


def _until(said: Said, named: Collection[str]) -> int:
    """The place of the first word that is named, or that says what it is about."""
    return next(
        (at for at, one in enumerate(said) if at and (one.word in named or one.word in lexicon.WHAT)), len(said)
    )


def _is_repository(said: Said, at: int) -> bool:
    raw = said[at].raw
    slashed = "/" in raw and "@" not in raw and not _ISSUE_URL.fullmatch(raw) and not _HASH.fullmatch(raw)
    return (
        slashed or _PROJECT.fullmatch(raw) is not None or lexicon.REPOSITORIES.fullmatch(said[at - 1].plain) is not None
    )


def _governor(said: Said, at: int, noun: re.Pattern[str]) -> tuple[int, bool]:
    """The place of the word that governs a name, such as "in" of "in the repository o/r", and whether the noun stands
    beside the name."""
    back, beside = at - 1, at + 1 < len(said) and noun.fullmatch(said[at + 1].plain) is not None
    while back > max(at - _GAP, 0) and (said[back].word in lexicon.ARTICLES or noun.fullmatch(said[back].plain)):
        beside = beside or noun.fullmatch(said[back].plain) is not None
        back -= 1
    return back, beside


def _is_place(said: Said, at: int, issues: Collection[int], until: int, *, anything: bool) -> bool:
    """Whether it is the place of an issue or a page, or of the object of the verb: nothing but "in" is between them."""
    back, _ = _governor(said, at, lexicon.REPOSITORIES)
    if back == 0:
        return anything
    if said[back].word not in lexicon.PLACES or any(map(_broken, said[back - 1 : at])):
        return False
    before = said[back - 1]
    if back - 1 in issues or (_DIGITS.fullmatch(before.raw) and _of_noun(said, back - 1, lexicon.PAGES)):
        return True
    if until < back:
        return False
    nouns = (lexicon.ISSUES, lexicon.COMMENTS, lexicon.PAGES)
    return back == 1 or anything or any(one.fullmatch(before.plain) for one in nouns)


def _is_loose_place(said: Said, at: int) -> bool:
    """Whether it may be the place of a new issue, as in "about the backup in o/r", where no other is named."""
    back, beside = _governor(said, at, lexicon.REPOSITORIES)
    inside = said[back].word in lexicon.INSIDE or (beside and said[back].word in lexicon.PLACES)
    return inside and _until(said, lexicon.LIKE) >= back


def _is_connection(said: Said, at: int, until: int, *, uses: bool) -> bool:
    back, beside = _governor(said, at, lexicon.CONNECTIONS)
    if back == 0:
        return uses
    means = said[back].word in lexicon.VIA or (beside and said[back].word in lexicon.BY)
    return means and until >= back


def _between_repositories(said: Said, last: int, at: int) -> bool:
    allowed = lexicon.JOINS | lexicon.PLACES | lexicon.ARTICLES
    return all(one.word in allowed or lexicon.REPOSITORIES.fullmatch(one.plain) for one in said[last + 1 : at])


# --- lists of aims ---------------------------------------------------------------------------------------------------


def _listed(
    said: Said,
    first: int,
    later: Collection[int],
    between: Callable[[Said, int, int], bool],
    *,
    dative: bool = False,
    clause: bool = False,
    verb: bool = True,
) -> list[int]:
    """The aims of a plain list; of one that something else follows no more than the first. `dative`: the first one
    stands at the verb, so that its object follows; `clause`: it may be followed by what is said to the aims; `verb`:
    the first word is surely none of a noun."""
    if not _ends(said, first, dative=dative):
        return []
    found = [first]
    for at in sorted(later):
        last = found[-1]
        joined = {*said[last].after} & set(",;&") or any(
            one.word in lexicon.ANY_AND or one.word in lexicon.COPIES for one in said[last + 1 : at]
        )
        plain = at - last <= _GAP and not any(_broken(one, but=",&") for one in said[last:at] if one.after != ";")
        if not (joined and plain and between(said, last, at)):
            break
        found.append(at)
    if len(found) == 1:
        return found if verb or _governs(said, first) or _closes(said, first, dative=dative, clause=True) else []
    gap = said[found[-2] + 1 : found[-1]]
    # "and to Bob", "12, 13 and 14": no new sentence begins so.
    sure = any(one.word in lexicon.TO or one.word in lexicon.AT for one in gap) or (
        said[found[-1]].raw.isdigit() and all(one.word in lexicon.JOINS for one in gap)
    )
    if _ends(said, found[-1]) if sure else _closes(said, found[-1], dative=dative, clause=clause):
        return found
    # "Comment on issue 13 and issue 14 is wrong" orders nothing.
    return [first] if _broken(said[first]) else []


def _governs(said: Said, at: int) -> bool:
    """Whether the first word is a verb, and not a noun of a sentence that says something of the aim, as in "Comment on
    issue 13 by Bob is wrong": its object stands behind it, or another sentence behind the aim."""
    one = said[1]
    if _broken(said[at]) and at + 1 < len(said) and said[at + 1].word not in lexicon.RELATIVE:
        return True
    known = lexicon.DETERMINERS | lexicon.PRONOUNS | lexicon.CERTAIN | lexicon.WHAT
    return at == 1 or one.word in known or "en" not in lexicon.VERBS.get(said[0].word, {})


def _broken(one: clauses.Word, but: Iterable[str] = "") -> bool:
    """Whether a new sentence may begin behind the word."""
    return bool(set(one.after) & (_BREAKS - set(but)))


def _leads(said: Said, at: int) -> bool:
    """Whether the verb governs the aim: single things at most are before it, as in "the date, time and place to"."""
    parts: list[list[str]] = [[]]
    for one in said[1:at]:
        if one.word in lexicon.ANY_AND and one.word not in lexicon.ARTICLES:
            parts.append([])
        else:
            parts[-1].append(one.word)
            if _broken(one):
                parts.append([])
    if _broken(said[0]) and parts[0] and parts[0][0] not in lexicon.FILLERS:
        return False
    for part in parts[1:]:
        rest = [one for one in part if one not in lexicon.FILLERS]
        to = next((place for place, one in enumerate(rest) if one in lexicon.TO or one in lexicon.AT), len(rest))
        thing = rest[1:to] if rest and rest[0] in lexicon.ARTICLES else rest[:to]
        # "and the open issues to": with an article there may be an adjective.
        said_of = len(thing) == 2 and (thing[1] in lexicon.SENT or thing[1].removesuffix("s") in lexicon.VERBS)
        if len(thing) > (2 if len(thing) < to else 1) or said_of:
            return False
    return True


def _ends(said: Said, at: int, *, dative: bool = False, after: re.Pattern[str] = lexicon.REPOSITORIES) -> bool:
    """Whether what stands behind an aim belongs to the order; `after`: a noun that belongs to the aim."""
    if _broken(said[at]):
        return True
    behind = _behind(said)
    for place in range(at + 1, len(said)):
        one = said[place]
        if one.word in lexicon.CLOSING or after.fullmatch(one.plain):
            if _broken(one):
                return True
            continue
        belongs = one.word in behind or one.word in lexicon.ANY_AND or one.bracketed or one.word == clauses.QUOTE
        return belongs or _verbal(said, place) or (dative and _is_object(said, one))
    return True


def _verbal(said: Said, at: int) -> bool:
    """Whether the end of a verb stands at the end: "an Ann schicken", "lade ... ein"."""
    ends = bool(said[at].after) or at + 1 == len(said)
    return ends and (said[at].word in lexicon.INFINITIVES or said[at].word in lexicon.PARTICLES)


def _behind(said: Said) -> frozenset[str]:
    """What may go on with an order behind an aim, in the language of its verb."""
    languages = lexicon.VERBS.get(said[0].word) or lexicon.BEHIND
    return frozenset[str]().union(*(lexicon.BEHIND[one] for one in languages))


def _is_object(said: Said, one: clauses.Word) -> bool:
    """Whether the object of a verb may begin with the word; in English it has an article."""
    languages = lexicon.VERBS.get(said[0].word, {})
    return one.word in lexicon.DETERMINERS or one.word in lexicon.MAILS or "en" not in languages


def _closes(said: Said, at: int, *, dative: bool, clause: bool) -> bool:
    """Whether the order ends behind the aim, but for short additions such as "by mail" or "on Friday"."""
    if ":" in said[at].after and not clause:
        return False
    behind, place = _behind(said) - lexicon.WHAT, at
    while place + 1 < len(said) and ";" not in said[place].after:
        one = said[place + 1]
        if one.word in lexicon.CLOSING or (one.word in lexicon.ANY_AND and place + 2 == len(said)):
            place += 1
        elif _broken(said[place]):
            return False
        elif (clause and one.word in lexicon.WHAT - lexicon.RELATIVE) or (dative and one.word in lexicon.DETERMINERS):
            return True
        elif _verbal(said, place + 1):
            place += 1
        elif one.word in behind and clause and place + 2 < len(said) and said[place + 2].word in lexicon.WHAT:
            # "from what we know"
            return True
        elif one.word in behind:
            place = _phrase(said, place + 1)
        else:
            return False
    return True


def _phrase(said: Said, at: int) -> int:
    """The last word of a phrase that begins with a preposition: an article, a word, and names or numbers."""
    place = at + 1
    while place < len(said) and said[place].word in lexicon.DETERMINERS and not _broken(said[place]):
        place += 1
    while place + 1 < len(said) and not _broken(said[place]):
        following = said[place + 1].raw
        if not (following[0].isupper() or following[0].isdigit() or "/" in following):
            break
        place += 1
    return min(place, len(said) - 1)
