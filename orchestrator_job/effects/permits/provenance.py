"""Where the arguments of an effect come from, and whether a person has to decide about it. Pure: no model has a say.

A text that a run has read may say "send this to a@example.com". What counts is who ordered it, and who wrote what:

1. The user has to have ordered the effect, in a sentence that names its aims as what they are (`orders`).
2. Each other argument may have the user's words and the model's. Words that were copied from a retrieved text are held
   where the order itself says what is to be written, where they are a passage that orders something, and in short
   values.

An aim is looked up as whole words (`words`): `a@example.com` does not stand in `aa@example.com.evil`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from contracts.rules import enforce_lines
from orchestrator_job.effects.permits import details, orders, seen_texts, words
from orchestrator_job.effects.tools import port
from orchestrator_job.effects.tools.port import Origin, Tier

_COPIED = 5
"""Words in a row that are no chance."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """`asks`: a person has to decide, and `why` says so in a sentence; else the call is carried out."""

    asks: bool
    why: str = ""
    origins: Mapping[str, Origin] | None = None


_WHOSE = {
    Origin.CONTENT: "stands in the task's document, not in what the user wrote",
    Origin.RETRIEVED: "comes from a text that was retrieved",
    Origin.MODEL: "was named by the model alone",
}


_KINDS = {
    "to": "recipient", "cc": "recipient", "bcc": "recipient", "issue": "issue", "page": "page",
    "repository": "repository", "connection": "connection",
}  # fmt: skip
"""What an aim is, by the name of its argument."""


def rule(
    tool: port.Acting,
    aims: Mapping[str, str],
    known: seen_texts.SeenTexts,
    held: enforce_lines.Provisions,
    wanted: port.Wanted | None = None,
) -> Ruling:
    """Whether the call may be carried out without a person. `wanted`: what it does besides its aims; None: of a tool
    whose effect no user can order."""
    origins = {name: known.origin(aim) for name, aim in aims.items()}
    if held.needs_approval:
        return Ruling(True, "A rule of this client requires a person's approval.", origins)
    if tool.tier is Tier.FREE:
        return Ruling(False, origins=origins)
    if tool.tier is not Tier.NAMED or wanted is None:
        return Ruling(True, f"{tool.name} always needs a person's approval.", origins)
    if not aims:
        return Ruling(True, f"This call of {tool.name} names no aim that the user could have named.", origins)
    foreign = [name for name, origin in origins.items() if origin is not Origin.USER]
    if foreign:
        parts = [f"{name} ({aims[name][:100]!r}) {_WHOSE[origins[name]]}" for name in foreign[:5]]
        return Ruling(True, f"{'; '.join(parts)}.", origins)
    matching: list[orders.Order] = []
    for deed in sorted(wanted.deeds):
        found = ordering(known.user, deed, aims)
        if not found:
            where = ", ".join(f"{name} {aim[:100]!r}" for name, aim in list(aims.items())[:5])
            return Ruling(True, f"No order of the user is about {deed.value} with {where}.", origins)
        matching += found
    why = _copied(wanted, matching, known) or details.objection(wanted, aims, matching, known)
    return Ruling(bool(why), why, origins)


def ordering(user: seen_texts.UserText, deed: port.Deed, aims: Mapping[str, str]) -> list[orders.Order]:
    """The orders of the user of this kind that name all of these aims, by the names of their arguments."""
    return [one for one in user.open if deed in one.deeds and _at(one, deed, aims, user)]


def _at(order: orders.Order, deed: port.Deed, aims: Mapping[str, str], user: seen_texts.UserText) -> bool:
    """Whether the order names every aim, each as what it is, and the call leaves out no place that it names."""
    kinds = {_KINDS.get(name.partition(".")[0], "") for name in aims}
    # The key of an issue has its project.
    numbered = deed is port.Deed.CREATE or any(name == "issue" and aim.isdigit() for name, aim in aims.items())
    if (numbered and order.repositories and "repository" not in kinds) or (
        (order.via or user.places["via"]) and "connection" not in kinds
    ):
        return False
    for name, aim in aims.items():
        plain = words.name(aim) or ()
        kind = _KINDS.get(name.partition(".")[0], "")
        if order.names(kind, plain):
            continue
        # Another order of the user may name the place, where this one names none.
        elsewhere = (kind == "repository" and not order.places) or (kind == "connection" and not order.connections)
        if not elsewhere or len(plain) != 1 or plain[0] not in user.places[kind]:
            return False
    return True


def _copied(wanted: port.Wanted, matching: Sequence[orders.Order], known: seen_texts.SeenTexts) -> str:
    """Which argument has words that were copied although no order asks for that, and which; "" without any."""
    for name, value in wanted.values.items():
        if _foreign(value, known):
            return f"{name} ({value[:100]!r}) comes from a text that was retrieved."
    for name, value in wanted.texts.items():
        text = words.split(value)
        if run := next(_runs(text, known, ordering=True), ""):
            return f"{name} repeats what a text that was retrieved orders: {run[:200]!r}."
        # What the user dictates has no other source than the user; the subject of an answer is that of the question.
        free = any(not one.dictates or (one.answers and name in _SUBJECTS) for one in matching)
        if not free and (run := next(_runs(text, known, ordering=False), "")):
            return f"{name} has words of a text that was retrieved, and the user said what to write: {run[:200]!r}."
    return ""


_SUBJECTS = ("subject", "title")
_TELLING = 6
"""Letters that stand in a text by no chance, with whatever is between them."""


def _foreign(value: str, known: seen_texts.SeenTexts) -> bool:
    """Whether a short value, or a part of it such as a domain, is from a text of another, also where that is written
    in parts."""
    text = words.split(value)
    if not text or known.user.whole.names(text):
        return False
    for part in {value, *value.split("@")}:
        whole, plain = words.split(part), words.squeezed(part)
        if known.user.whole.names(whole) or (plain and plain in known.user.squeezed):
            continue
        for one in known.others:
            if one.whole.names(whole) or (len(plain) >= _TELLING and plain in one.squeezed):
                return True
    return False


def _runs(text: Sequence[str], known: seen_texts.SeenTexts, *, ordering: bool) -> Iterator[str]:
    """The words of a text that another text has, or what that orders (`ordering`; then no other sentence has them), and
    the user has not: some in a row, the text as a whole, or one that says a thing by itself (a number, an address)."""
    size = min(_COPIED, len(text))
    parts = [text[at : at + size] for at in range(len(text) - size + 1)] if size else []
    parts += [[word] for word in text if any(map(str.isdigit, word)) or "@" in word or "/" in word]
    said, sets = set(text), [(frozenset(part), part) for part in parts]
    for other in known.others:
        # Few texts have any of the words in a row, and only those are read as sentences.
        shared = other.whole.vocabulary & said
        for part in [part for each, part in sets if each <= shared] if shared else ():
            names = other.passages[0].names(part) if ordering else other.whole.names(part)
            if not names or known.user.whole.names(part):
                continue
            if not ordering or not any(_has(one, part) for one in known.others):
                yield " ".join(part)


def _has(one: seen_texts.UntrustedText, part: Sequence[str]) -> bool:
    """Whether a sentence of it that orders nothing has these words."""
    return one.whole.vocabulary >= set(part) and one.passages[1].names(part)
