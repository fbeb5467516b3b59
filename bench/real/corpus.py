"""Documents with facts that they are known to state.

`documents` makes them of sentences, some of which state a fact about two names; the same ones for the same seed. Three
languages (English, German, Czech) and four kinds (mail, issue, page, meeting) take turns. `passages` are written by
others: a part of Wikipedia with the facts that another model found in it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.real import naming

LANGUAGES = ("en", "de", "cs")
KINDS = ("email", "issue", "wiki", "meeting")
FACTS = 3
"""Of each document that is made here."""
PUBLIC = Path(__file__).resolve().parents[2] / "tests" / "kb" / "questions"
"""Its README names source and licence."""
_POOLS = {
    "person": "Alma Brandt|Boris Kučera|Clara Nowak|David Hartl|Ema Lindner|Filip Urban|Greta Moser|Hugo Beran",
    "service": "parcel-api|ledger-sync|invoice-bot|route-cache|badge-portal|meter-feed|archive-sweep|label-print",
    "host": "orion-1|orion-2|vega-7|vega-9|lyra-3|lyra-4|cygnus-5|cygnus-8",
    "project": "Northlight|Bluebird|Granite|Saltmarsh|Kestrel|Juniper|Marigold|Tidewater",
    "company": "Hallmann|Vrba|Okonek|Steinwerk|Zelinka|Portavia|Nordahl|Brennero",
    "site": "Brno|Leipzig|Ostrava|Graz|Tartu|Malmo|Gdansk|Trieste",
}
_STATED: dict[str, Sequence[tuple[str, str, str]]] = {
    "en": (
        ("person", "project", "{0} leads the project {1}."),
        ("service", "host", "The service {0} runs on the server {1}."),
        ("company", "site", "{0} delivers the spare parts for the plant in {1}."),
        ("person", "service", "{0} took over the service {1} at the beginning of the month."),
        ("project", "company", "The project {0} is paid by {1}."),
    ),
    "de": (
        ("person", "project", "{0} leitet das Projekt {1}."),
        ("service", "host", "Der Dienst {0} läuft auf dem Server {1}."),
        ("company", "site", "{0} liefert die Ersatzteile für das Werk in {1}."),
        ("person", "service", "{0} hat den Dienst {1} am Monatsanfang übernommen."),
        ("project", "company", "Das Projekt {0} wird von {1} bezahlt."),
    ),
    "cs": (
        ("person", "project", "{0} vede projekt {1}."),
        ("service", "host", "Služba {0} běží na serveru {1}."),
        ("company", "site", "{0} dodává náhradní díly pro závod {1}."),
        ("person", "service", "{0} má od začátku měsíce na starosti službu {1}."),
        ("project", "company", "Projekt {0} platí {1}."),
    ),
}
_BESIDE = {
    "en": ("The weather was kind to the move.", "Coffee is on the second floor.", "More will follow next week."),
    "de": ("Das Wetter war dem Umzug gnädig.", "Kaffee gibt es im zweiten Stock.", "Mehr folgt nächste Woche."),
    "cs": ("Počasí stěhování přálo.", "Káva je ve druhém patře.", "Další zprávy přijdou příští týden."),
}
_TITLES = {"en": "Notes of the week, {0}", "de": "Notizen der Woche, {0}", "cs": "Poznámky týdne, {0}"}


@dataclass(frozen=True)
class Fact:
    """`sentence` states it of two names."""

    source: str
    target: str
    sentence: str


@dataclass(frozen=True)
class Document:
    """`urn` is its own; `content` holds the sentence of each of `facts`. `plain`: no pronoun stands for a name, so that
    a fact is stated where both its ends are named."""

    urn: str
    kind: str
    language: str
    title: str
    content: str
    facts: tuple[Fact, ...]
    plain: bool = False


def documents(count: int, seed: int) -> list[Document]:
    """`count` documents, language by language and kind by kind in turn."""
    chance = random.Random(seed)
    return [
        _document(chance, number, LANGUAGES[number % 3], KINDS[(number // 3) % len(KINDS)]) for number in range(count)
    ]


def passages(count: int = 100) -> list[Document]:
    """The first of MuSiQue's passages. Their facts are the triples of OpenIE that one sentence names both ends of."""
    texts = [json.loads(line) for line in lines("musique.passages.jsonl")[:count]]
    found = {each["passage"]: each["triples"] for each in map(json.loads, lines("musique.triples.jsonl"))}
    return [
        Document(
            f"wiki::{each['id']}", "wiki", "en", each["title"], each["text"],
            tuple(_stated(each["text"], found.get(each["id"], []))),
        )
        for each in texts
    ]  # fmt: skip


def lines(file: str) -> list[str]:
    """Of a file of `PUBLIC`, each of which is a JSON document."""
    return (PUBLIC / file).read_text("utf-8").splitlines()


def _stated(text: str, triples: Sequence[Sequence[str]]) -> Iterator[Fact]:
    # In either direction once; some are not whole.
    for source, target in sorted({(min(each[::2]), max(each[::2])) for each in triples if len(each) == 3}):
        both = [each for each in naming.sentences(text) if naming.names(each, source) and naming.names(each, target)]
        if both:
            yield Fact(source, target, both[0])


def _document(chance: random.Random, number: int, language: str, kind: str) -> Document:
    facts = tuple(_fact(chance, shape) for shape in chance.sample(_STATED[language], FACTS))
    lines = [*(fact.sentence for fact in facts), *chance.sample(_BESIDE[language], 2)]
    chance.shuffle(lines)
    title = _TITLES[language].format(number)
    body = " ".join(lines)
    heads = {
        "email": f"From: office@example.com\nTo: all@example.com\nSubject: {title}\n\n{body}\n",
        "issue": f"OPS-{number}: {title}\nStatus: Open\nType: Task\n\n{body}\n",
        "wiki": f"# {title}\n\n{body}\n",
        "meeting": f"{title}\n\n{body}\n",
    }
    # A tracker's URN has the key of its issue, so that the node of the document is that of the issue.
    urn = f"jira::OPS-{number}" if kind == "issue" else f"{kind}::real-{number}"
    return Document(urn, kind, language, title, heads[kind], facts, plain=True)


def _fact(chance: random.Random, shape: tuple[str, str, str]) -> Fact:
    source, target = (chance.choice(_POOLS[pool].split("|")) for pool in shape[:2])
    return Fact(source, target, shape[2].format(source, target))
