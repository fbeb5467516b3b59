"""`python -m tests.faults [CAMPAIGN ...] [--seed N]`: the long form. Progress on stderr, a JSON summary on stdout.

`--part 2/3` does every third campaign (of `faults` every third fault), beginning with the second, so that several
machines or calls share the work. `--keep FILE` writes each outcome there as soon as it is known and leaves out what
stands there already for this seed with nothing broken: a call that was cut off goes on where it stopped.

Needs the MongoDB-wire server of `make services-up` and its address in JERVIS_TEST_MONGODB_URI. Ends with code 1 when
something does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TypeVar

from hack.cluster import standalone
from tests.faults import campaigns, everywhere, kills, leadership, server, tenants
from tests.faults.outcome import BOUND, Outcome
from tests.faults.sites import Moment
from tests.faults.stage import BRIEF, SCALE, Stage, stage

NAMES = (
    "sites", "faults", "kills", "mix", "silence", "silence-as-shipped", "restarts-etcd", "restarts-kube-apiserver",
    "leadership", "late-job", "last-words", "namespace", "namespace-unreported",
)  # fmt: skip
STAGES = 3
"""Stages of the campaign `faults` at the same time."""

Thing = TypeVar("Thing")


class Long:
    """The campaigns at full length."""

    def __init__(
        self, on: standalone.Server, mongodb_uri: str, directory: Path, seed: int, tasks: int, book: Book
    ) -> None:
        self._server, self._uri, self._directory = on, mongodb_uri, directory
        self._seed, self._tasks, self._book = seed, tasks, book
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._start

    def say(self, sentence: str) -> None:
        """Progress."""
        print(f"[{time.monotonic() - self._start:7.1f}s] {sentence}", file=sys.stderr, flush=True)

    @contextlib.asynccontextmanager
    async def begin(self, scale: float = SCALE) -> AsyncIterator[Stage]:
        """A new stage, with a directory for its logs."""
        directory = Path(tempfile.mkdtemp(dir=self._directory))
        async with stage(self._server, self._uri, directory, self._seed, scale, **BRIEF) as on:
            yield on

    async def run(self, name: str) -> list[Outcome]:
        """One campaign."""
        self.say(f"{name}: begins")
        seed, say = self._seed, self.say
        if name == "sites":
            async with self.begin() as on:
                sites = await everywhere.survey(on, seed)
                wrong = await on.judge()
            for site in sorted(sites):
                say(f"call site: {site}")
            found = await everywhere.at_every_site(self.begin, seed, kills.targets(sites), say, also=list(Moment))
            found[0].broken += [f"without any fault: {sentence}" for sentence in wrong]
            return found
        if name == "leadership":
            return await leadership.all_of_them(self.begin, seed, say)
        if name == "faults":
            wanted = [fault for fault in self._book.mine(campaigns.WIRE) if not self._book.has(name, fault.value)]
            return await campaigns.every_fault(self.begin, seed, wanted, STAGES, self._book.keep, say)
        async with self.begin(1.0 if name == "silence-as-shipped" else SCALE) as on:
            if name == "late-job":
                return [await campaigns.late_job(on, seed)]
            if name == "last-words":
                return [await campaigns.last_words(on, seed)]
            if name.startswith("namespace"):
                unreported = name.endswith("unreported")
                return [await tenants.deleted_namespace(on, seed, self._tasks // 4, unreported=unreported, say=say)]
            if name == "kills":
                return [await campaigns.at_random(on, seed, self._tasks, 100, say)]
            if name == "mix":
                return [await campaigns.mixed(on, seed, self._tasks, 0.05, say)]
            if name.startswith("silence"):
                return [await campaigns.silent_watches(on, seed)]
            part = {"restarts-etcd": self._server.etcd, "restarts-kube-apiserver": self._server.api}[name]
            return [await campaigns.restarts(on, seed, part, 5, self._tasks // 4, say)]


class Book:
    """Which part of the work is ours, and what of it is done. `path`: JSON lines of earlier calls and of this one."""

    def __init__(self, seed: int, part: tuple[int, int], path: Path | None) -> None:
        self._seed, (self._number, self._parts), self._path = seed, part, path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._done = [one for one in map(json.loads, lines) if one["seed"] == seed and one["good"]]
        self._kept: set[int] = set()

    def mine(self, every: Sequence[Thing]) -> list[Thing]:
        """Our share of them."""
        return list(every[self._number - 1 :: self._parts])

    def has(self, campaign: str, fault: str | None = None) -> bool:
        """Was it done, and well?"""
        return any(one["campaign"] == campaign and fault in (None, one.get("fault")) for one in self._done)

    def keep(self, outcome: Outcome) -> None:
        """Tell it, and write it down, once."""
        if id(outcome) in self._kept:
            return
        self._kept.add(id(outcome))
        line = json.dumps({**outcome.document(), "good": not outcome.sentences(timed=True)})
        print(line, flush=True)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(line + "\n")


def _part(text: str) -> tuple[int, int]:
    number, _, parts = text.partition("/")
    if not (number.isdigit() and parts.isdigit() and 1 <= int(number) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part; the second of three is 2/3")
    return int(number), int(parts)


def main() -> int:
    """Exit code 0 when everything holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Break everything; judge the record.")
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--seed", type=int, default=20270301)
    parser.add_argument("--tasks", type=int, default=1200, help="of the campaigns `kills` and `mix`")
    parser.add_argument("--part", type=_part, default=(1, 1), metavar="N/M", help="only this part of the work")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="outcomes, also of earlier calls, which are left out")
    asked = parser.parse_args()
    unknown = set(asked.campaigns) - set(NAMES)
    if unknown:
        parser.error(f"there is no campaign {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    uri = os.environ.get("JERVIS_TEST_MONGODB_URI")
    if not uri:
        parser.error('JERVIS_TEST_MONGODB_URI is not set: make services-up; eval "$(python -m hack.cluster env)"')
    directory = Path(tempfile.mkdtemp(prefix="jervis-faults-"))
    with server.running(directory / "server") as on:
        book = Book(asked.seed, asked.part, asked.keep)
        long = Long(on, uri, directory, asked.seed, asked.tasks, book)
        found: list[Outcome] = []
        # The campaign `faults` is divided in itself.
        single = [name for name in asked.campaigns or NAMES if name != "faults"]
        wanted = [name for name in book.mine(single) if not book.has(name)]
        if "faults" in (asked.campaigns or NAMES):
            wanted.insert(0, "faults")
        for number, name in enumerate(wanted, 1):
            long.say(f"campaign {number} of {len(wanted)}")
            one = asyncio.run(long.run(name))
            found += one
            for outcome in one:
                outcome.campaign = name
                book.keep(outcome)
    documents = [one.document() for one in found]
    total = {
        "summary": True,
        "seed": asked.seed,
        "seconds": round(long.seconds),
        "tasks": sum(one.tasks for one in found),
        "kills": sum(one.kills for one in found),
        "faults": sum(sum(one.faults.values()) for one in found),
        "lost": sum(one["lost"] for one in documents),
        "duplicates": sum(one["duplicates"] for one in documents),
        "broken": sum(len(one.broken) for one in found),
        "longestSecondsToConverge": max((one["secondsToConverge"] for one in documents), default=0),
        "boundSeconds": BOUND,
        "logs": str(directory),
    }
    print(json.dumps(total))
    wrong = [sentence for one in found for sentence in one.sentences(timed=True)]
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
