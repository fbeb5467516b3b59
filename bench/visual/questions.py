"""60 questions about PDFs of tables, two columns and scans: is the right page among the first five?

The files go in by the API as a user's would, with Tika, and the questions by `POST /search/pages`. Words are drawn from
one small vocabulary, so that each page shares most of its words with others and only the combination is its own.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import prometheus_client

from bench import variables
from crds import scope
from kb import api, metrics, mongo
from kb.visual.weaviate import store
from router import client as router_client
from tests.fakes import glyphs
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb.files import making as files
from tests.kb.visual import place as places

OWNER = scope.Scope(client_id="bench")
KINDS = ("tables", "columns", "scans")
_DOCUMENTS, _PAGES = 3, 8
# A cover comes before scans.
MOST_PAGES = _PAGES + 1
_EACH = 20
_NOUNS = """
pump valve turbine gasket filter boiler compressor conveyor bearing spindle nozzle piston flange coupling
radiator manifold sensor actuator gearbox cylinder impeller generator transformer breaker insulator cable socket
bracket hinge ladder platform railing sluice funnel hopper crusher grinder mixer extractor ventilator damper
burner furnace chimney
""".split()  # noqa: SIM905 -- a list of words
_KINDS_OF = """
red blue steel copper plastic ceramic spare heavy light double single hollow sealed welded coated brazed
polished magnetic hydraulic electric manual portable vertical horizontal annual weekly primary secondary
""".split()  # noqa: SIM905 -- a list of words
_DOES = "replaces drives cools heats holds moves feeds cleans closes opens supports measures".split()  # noqa: SIM905


@dataclass(frozen=True)
class Asked:
    """A question, and the page that answers it."""

    kind: str
    query: str
    source_urn: str
    page: int


def made(seed: int) -> tuple[dict[str, bytes], list[Asked]]:
    """The files by their source URNs, and the questions."""
    chance = random.Random(seed)
    files_of: dict[str, bytes] = {}
    asked: list[Asked] = []
    for kind in KINDS:
        possible: list[Asked] = []
        for number in range(_DOCUMENTS):
            urn = f"{kind}::{number}"
            contents = []
            for page in range(1, _PAGES + 1):
                how = kind if kind != "scans" else chance.choice(["tables", "columns"])
                content, queries = _table(chance) if how == "tables" else _columns(chance)
                contents.append(content)
                possible += [Asked(kind, query, urn, page) for query in queries]
            if kind == "scans":
                # A cover page with text: what has no text at all needs a vision model to be taken.
                files_of[urn] = places.scans(*contents, words=places.lines(f"Cover of the scanned volume {number}"))
            else:
                files_of[urn] = files.pages(*contents)
        asked += chance.sample(possible, _EACH)
    return files_of, asked


def _table(chance: random.Random) -> tuple[str, list[str]]:
    rows, queries = [], []
    for row in range(16):
        kind, noun = chance.choice(_KINDS_OF), chance.choice(_NOUNS)
        code, price = f"{chance.choice('KLMNP')}{chance.randrange(100, 999)}", f"{chance.randrange(20, 900)} EUR"
        top = 700 - 36 * row
        cells = [(72, f"{kind} {noun}"), (300, code), (420, price)]
        rows += [f"BT /F1 12 Tf {left} {top} Td ({text}) Tj ET" for left, text in cells]
        rows.append(f"0.5 w 66 {top - 10} m 520 {top - 10} l S")
        queries.append(f"What does the {kind} {noun} {code} cost?")
    rows += ["0.5 w 66 124 m 66 724 l S", "0.5 w 290 124 m 290 724 l S", "0.5 w 410 124 m 410 724 l S"]
    return " ".join(rows), queries


def _columns(chance: random.Random) -> tuple[str, list[str]]:
    drawn, queries = [], []
    for left in (60, 330):
        for block in range(8):
            first, second = (f"{chance.choice(_KINDS_OF)} {chance.choice(_NOUNS)}" for _ in range(2))
            does, room = chance.choice(_DOES), chance.randrange(10, 99)
            lines = [f"The {first} {does}", f"the {second}", f"in hall {room}."]
            drawn += [
                f"BT /F1 11 Tf {left} {730 - 84 * block - 18 * at} Td ({line}) Tj ET" for at, line in enumerate(lines)
            ]
            queries.append(f"Which {first} {does} the {second} in hall {room}?")
    return " ".join(drawn), queries


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """Shares of questions whose page is among the first five (and first), by kind and way."""
    sent, asked = made(options.seed)
    name = f"bench-{uuid.uuid4().hex[:8]}"
    database = mongo.Database(options.mongodb or variables.required("JERVIS_TEST_MONGODB_URI"), f"bench_{name[6:]}")
    index = store.Store(options.weaviate, options.grpc, "glyphs-128", index=name)
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    try:
        with tempfile.TemporaryDirectory() as folder, process.running(num_parallel=4) as fake:
            async with httpx.AsyncClient(trust_env=False, verify=False) as http:
                router = router_client.Client(fake.url, http)
                clock = clocks.Clock()
                path = Path(folder)
                async with places.opened(path, router, clock, meters, database, index, limit=8 << 20) as place:
                    await place.choose(OWNER)
                    begun = time.perf_counter()
                    for urn, raw in sent.items():
                        await place.client.learning.file(OWNER, raw, filename=f"{urn}.pdf", source_urn=urn)
                    await place.make()
                    seconds = time.perf_counter() - begun
                    found = {way: await _asked(place, asked, way) for way in ("Words", "Images", "Auto")}
    finally:
        await index.destroy()
        await index.close()
        for one in ("kb_pages", "kb_page_works", "pageChoices", "content.files", "content.chunks"):
            await database[one].drop()
        await database.close()
    return {
        "embedder": glyphs.Glyphs().name,
        "documents": len(sent),
        "pages": len(sent) * _PAGES + _DOCUMENTS,
        "questions": len(asked),
        "pagesPerSecond": round((len(sent) * _PAGES) / seconds, 1),
        "rightPageAmongFirstFive": found,
    }


async def _asked(place: places.Place, asked: list[Asked], way: str) -> dict[str, Any]:
    right: dict[str, int] = dict.fromkeys(KINDS, 0)
    first, times = 0, []
    for one in asked:
        begun = time.perf_counter()
        question = api.PageSearch.model_validate({"scope": OWNER, "query": one.query, "topK": 5, "ways": way})
        reply = await place.client.pages.search(question)
        times.append(time.perf_counter() - begun)
        pages = [(hit.source_urn, hit.page_number) for hit in reply.pages]
        wanted = (one.source_urn, one.page)
        right[one.kind] += wanted in pages
        first += pages[:1] == [wanted]
    shares = {kind: round(count / _EACH, 3) for kind, count in right.items()}
    return {
        **shares,
        "all": round(sum(right.values()) / len(asked), 3),
        "firstOfAll": round(first / len(asked), 3),
        "millisecondsP95": round(1000 * sorted(times)[int(0.95 * len(times))], 1),
    }
