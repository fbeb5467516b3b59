"""`python -m tests.faults [CAMPAIGN ...] [--seed N]`: the long form. Progress on stderr, a JSON summary on stdout.

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
from collections.abc import AsyncIterator
from pathlib import Path

from hack.cluster import standalone
from tests.faults import campaigns, kills, leadership, server
from tests.faults.outcome import BOUND, Outcome
from tests.faults.stage import BRIEF, Stage, stage

NAMES = ("sites", "faults", "kills", "mix", "silence", "restarts-etcd", "restarts-kube-apiserver", "leadership")


class Long:
    """The campaigns at full length."""

    def __init__(self, on: standalone.Server, mongodb_uri: str, directory: Path, seed: int, tasks: int) -> None:
        self._server, self._uri, self._directory = on, mongodb_uri, directory
        self._seed, self._tasks = seed, tasks
        self._start = time.monotonic()

    def say(self, sentence: str) -> None:
        """Progress."""
        print(f"[{time.monotonic() - self._start:7.1f}s] {sentence}", file=sys.stderr, flush=True)

    @contextlib.asynccontextmanager
    async def begin(self) -> AsyncIterator[Stage]:
        """A new stage, with a directory for its logs."""
        directory = Path(tempfile.mkdtemp(dir=self._directory))
        async with stage(self._server, self._uri, directory, self._seed, **BRIEF) as on:
            yield on

    async def run(self, name: str) -> list[Outcome]:
        """One campaign."""
        self.say(f"{name}: begins")
        seed, say = self._seed, self.say
        if name == "sites":
            async with self.begin() as on:
                sites = await campaigns.survey(on, seed)
            for site in sorted(sites):
                say(f"call site: {site}")
            return await campaigns.at_every_site(self.begin, seed, kills.targets(sites), say)
        if name == "leadership":
            return await leadership.all_of_them(self.begin, seed, say)
        async with self.begin() as on:
            if name == "faults":
                return await campaigns.one_by_one(on, seed, campaigns.WIRE, say)
            if name == "kills":
                return [await campaigns.at_random(on, seed, self._tasks, 100, say)]
            if name == "mix":
                return [await campaigns.mixed(on, seed, self._tasks, 0.05, say)]
            if name == "silence":
                return [await campaigns.silent_watches(on, seed)]
            part = {"restarts-etcd": self._server.etcd, "restarts-kube-apiserver": self._server.api}[name]
            return [await campaigns.restarts(on, seed, part, 5, self._tasks // 4, say)]


def main() -> int:
    """Exit code 0 when everything holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Break everything; judge the record.")
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--seed", type=int, default=20270301)
    parser.add_argument("--tasks", type=int, default=1200, help="of the campaigns `kills` and `mix`")
    asked = parser.parse_args()
    unknown = set(asked.campaigns) - set(NAMES)
    if unknown:
        parser.error(f"there is no campaign {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    uri = os.environ.get("JERVIS_TEST_MONGODB_URI")
    if not uri:
        parser.error('JERVIS_TEST_MONGODB_URI is not set: make services-up; eval "$(python -m hack.cluster env)"')
    directory = Path(tempfile.mkdtemp(prefix="jervis-faults-"))
    with server.running(directory / "server") as on:
        long = Long(on, uri, directory, asked.seed, asked.tasks)
        found: list[Outcome] = []
        for name in asked.campaigns or NAMES:
            one = asyncio.run(long.run(name))
            found += one
            for outcome in one:
                print(json.dumps(outcome.document()), flush=True)
    documents = [one.document() for one in found]
    total = {
        "summary": True,
        "seed": asked.seed,
        "seconds": round(time.monotonic() - long._start),
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
    wrong = [sentence for one in found for sentence in one.sentences()]
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
