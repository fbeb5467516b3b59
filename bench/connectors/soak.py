"""All sources at once, which change at a steady rate, and one sources process: `python -m bench.connectors.soak`.

Dovecot, Gitea and a Git daemon are real; Jira, Confluence, GitHub and GitLab are the servers of the tests. The
apiserver and the knowledge base only count; MongoDB's wire is real. Every Connection is polled each 10 seconds and
swept each minute. JSON on stdout: memory, file descriptors and threads of the process over time with their slopes
after the first fifth, tasks and how long they took. Exit status 1 when something was made twice or is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.connectors import mails, outside
from clients import mongo
from crds import connection
from sources.core import assignments
from tests import ports
from tests.sources import confluence_server, dovecot, forge, gitea, jira_server
from tests.sources.git import making

ROOT = Path(__file__).resolve().parents[2]
EVERY = 10.0
"""Seconds between two samples."""
SETTLES = 60.0
"""Seconds without changes at the end, in which everything has to become a task."""
Change = Callable[[int], Awaitable[None]]
"""Makes the change with this number."""


class Sites:
    """The servers with their Connections, and what changes on them each second."""

    def __init__(self, wire: outside.Outside, delivers: dovecot.Dovecot, tracker: gitea.Gitea, git: str) -> None:
        self.wire, self.mail, self.gitea, self.dice = wire, delivers, tracker, random.Random(1)
        self.jira, self.wiki = jira_server.Jira(self.dice), confluence_server.Confluence(self.dice)
        self.hub, self.lab = forge.Forge(), forge.Forge()
        self.made: dict[str, set[str]] = {"mailbox": set(), "jira": set()}
        """By Connection the URNs of all new things."""
        self.gitea_issues = 0
        self.repository = tracker.repository("soak")
        self._git, self.commits = git, 0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[dict[str, dict[str, Any]]]:
        """The specs of the Connections by name."""
        async with self.jira.serving(), self.wiki.serving(), self.hub.serving(), self.lab.serving():
            yield {
                "mailbox": {"type": "Email", "url": self.mail.url, "secretRef": {"name": "mailbox"}},
                "jira": {"type": "Jira", "url": self.jira.url, "secretRef": {"name": "token"}},
                "wiki": {"type": "Confluence", "url": self.wiki.url, "secretRef": {"name": "token"}},
                "hub": {"type": "GitHub", "url": f"{self.hub.url}/{forge.REPOSITORY}", "secretRef": {"name": "token"}},
                "lab": {"type": "GitLab", "url": f"{self.lab.url}/{forge.REPOSITORY}", "secretRef": {"name": "token"}},
                "gitea": {
                    "type": "Gitea", "url": f"{self.gitea.url}/{self.repository}", "secretRef": {"name": "gitea"},
                },
                "git": {"type": "Git", "projectId": "soak", "url": f"{self._git}/one.git"},
            }  # fmt: skip

    def tick(self, seconds: float) -> None:
        """The clocks of the sites go on, and their searches show what changed."""
        for one in (self.jira, self.wiki):
            one.now += timedelta(seconds=seconds)
            one.settle()
        self.hub.tick(seconds)
        self.lab.tick(seconds)

    def _appears(self, name: str, urn: str) -> None:
        self.made[name].add(urn)
        self.wire.appeared[urn] = time.monotonic()

    async def change(self, number: int, work: making.Repository) -> None:
        """The changes of one second; `number` counts them."""
        raw = mails.ordinary(number, 4096)
        identity = raw.partition(b"Message-ID: <")[2].partition(b">")[0].decode()
        self._appears("mailbox", f"email::{identity}")
        await asyncio.to_thread(self.mail.deliver, raw.replace(b"\n", b"\r\n"))
        turn, dice = number % 6, self.dice
        if turn in (0, 3):
            self._appears("jira", f"jira::{self.jira.put().key}")
            self.jira.touch(dice.choice([*self.jira.issues.values()]), summary=f"Changed {number}")
        elif turn == 1:
            self.wiki.put()
            self.wiki.edit(dice.choice([*self.wiki.contents.values()]), f"<p>Changed {number}.</p>")
        elif turn == 2:
            for site in (self.hub, self.lab):
                site.say(site.create(f"Issue {number}").number, "A comment.")
                site.change(dice.choice([*site.entries]), f"Changed {number}")
        elif turn == 4:
            issue = await asyncio.to_thread(self.gitea.issue, self.repository, f"Issue {number}")
            self.gitea_issues += 1
            await asyncio.to_thread(self.gitea.comment, self.repository, issue, "A comment.")
        else:
            await asyncio.to_thread(work.commit, f"Change {number}", {f"file{number % 50}.txt": raw})
            self.commits += 1
        if number % 30 == 29:
            await asyncio.to_thread(self._delete)

    def _delete(self) -> None:
        """The oldest mail and an issue leave."""
        with self.mail.mailbox() as client:
            client.select("INBOX")
            client.store("1", "+FLAGS", "\\Deleted")
            client.expunge()
        self.jira.delete(next(iter(self.jira.issues.values())))


def sample(pid: int) -> dict[str, float]:
    """MiB, file descriptors and threads of a process."""
    said = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return {
        "rss_mib": int(said["VmRSS"].split()[0]) / 1024, "peak_mib": int(said["VmHWM"].split()[0]) / 1024,
        "threads": int(said["Threads"]), "fds": len(os.listdir(f"/proc/{pid}/fd")),
    }  # fmt: skip


def slope(samples: Sequence[dict[str, float]], name: str) -> float:
    """Per hour, by least squares."""
    if len(samples) < 3:
        return 0.0
    found = statistics.linear_regression([one["at"] for one in samples], [one[name] for one in samples])
    return round(found.slope * 3600, 2)


async def soak(minutes: float, folder: Path) -> dict[str, Any]:
    """The run."""
    (folder / "workspace").mkdir()
    work = making.Repository(folder / "srv" / "one.git")
    work.commit("The first", {"README.md": b"# Soak\n"})
    with (
        outside.mongodb(folder) as uri, dovecot.running() as delivers, gitea.running() as tracker,
        making.daemon(folder / "srv") as git,
    ):  # fmt: skip
        secrets = {
            "mailbox": {"username": "ada", "password": dovecot.PASSWORD},
            "token": {"username": "a@b.example", "token": "t"},
            "gitea": {"token": tracker.token},
        }
        wire = outside.Outside(secrets)
        sites = Sites(wire, delivers, tracker, git)
        async with wire.serving(), sites.serving() as specs:
            port = ports.free()
            settings = {
                "MONGODB_URI": uri, "KUBECONFIG": wire.kubeconfig(folder), "KB_URL": wire.url, "PLAINTEXT": True,
                "LOOPBACK": True, "WORKSPACE": folder / "workspace", "SWEEP_SECONDS": 60,
                "METRICS_HOST": "127.0.0.1", "METRICS_PORT": port,
                "API_HOST": "127.0.0.1", "API_PORT": ports.free(), "LOG_LEVEL": "info",
            }  # fmt: skip
            env = {key: one for key, one in os.environ.items() if not key.startswith("JERVIS_")}
            env |= {f"JERVIS_SOURCES_{key}": str(one) for key, one in settings.items()}
            with (folder / "sources.log").open("wb") as log:
                child = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "sources", cwd=ROOT, stdout=log, stderr=log,
                    env={**env, "PYTHONPATH": str(ROOT)},
                )  # fmt: skip
            try:
                return await _run(minutes, uri, specs, sites, work, child.pid)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    child.terminate()
                code = await child.wait()
                lines = (folder / "sources.log").read_text().splitlines()
                print(f"sources ended with {code}", *lines[-5:], sep="\n", file=sys.stderr)


async def _run(
    minutes: float, uri: str, specs: dict[str, dict[str, Any]], sites: Sites, work: making.Repository, pid: int
) -> dict[str, Any]:
    store = mongo.client(uri, 30.0)
    assigned = assignments.Assignments(store["jervis"])
    same = {
        "clientId": "acme", "pollInterval": "10s", "maxInFlightTasks": 1000,
        "rateLimit": {"requestsPerMinute": 6000, "burst": 1000},
    }  # fmt: skip
    for name, spec in specs.items():
        meta = {"name": name, "namespace": "soak", "uid": f"soak-{name}", "generation": 1}
        await assigned.want(connection.Connection.model_validate({"metadata": meta, "spec": {**same, **spec}}))
    begun, samples, number = time.monotonic(), list[dict[str, float]](), 0
    sampled = begun
    while (at := time.monotonic() - begun) < minutes * 60 + SETTLES:
        sites.tick(1.0)
        if at < minutes * 60:
            await sites.change(number, work)
            number += 1
        if time.monotonic() - sampled >= EVERY:
            sampled = time.monotonic()
            samples.append({"at": round(at, 1), **sample(pid)})
            print(json.dumps({**samples[-1], **sites.wire.by_connection}), file=sys.stderr, flush=True)
        await asyncio.sleep(max(0.0, begun + at + 1.0 - time.monotonic()))
    states = await assigned.states()
    store.close()
    return _summed(samples, sites, {uid.removeprefix("soak-"): one[2] for uid, one in states.items()}, number)


def _summed(samples: list[dict[str, float]], sites: Sites, states: dict[str, Any], changes: int) -> dict[str, Any]:
    late = [one for one in samples if one["at"] >= samples[-1]["at"] / 5]
    wire = sites.wire
    absent = {name: len(some & set(wire.appeared)) for name, some in sites.made.items()}
    lags = {
        name: {"p50": round(statistics.median(some), 1), "most": round(max(some), 1), "count": len(some)}
        for name, some in wire.lags.items()
    }
    failing = {name: one.message for name, one in states.items() if one.failures}
    swept = {name: None if one.sweep is None else one.sweep.outcome for name, one in states.items()}
    return {
        "minutes": round(samples[-1]["at"] / 60, 1), "changes": changes, "first": late[0], "last": late[-1],
        "slope_per_hour": {key: slope(late, key) for key in ("rss_mib", "fds", "threads")},
        "tasks": dict(wire.by_connection), "made_twice": wire.twice, "without_task": absent,
        "commits": {"made": sites.commits + 1, "sent": len(wire.sent), "different": len(set(wire.sent))},
        "gitea_issues": sites.gitea_issues, "lag_seconds": lags, "failing": failing, "sweeps": swept,
        "load": os.getloadavg()[0],
    }  # fmt: skip


def main(arguments: list[str]) -> int:
    """Run; 0 when everything became a task once."""
    parser = argparse.ArgumentParser(prog="python -m bench.connectors.soak", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, default=60.0)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-soak-") as at:
        Path(at).chmod(0o711)
        found = asyncio.run(soak(given.minutes, Path(at)))
    print(json.dumps(found, indent=1))  # the answer
    return 1 if found["made_twice"] or any(found["without_task"].values()) or found["failing"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
