"""The first read of a mailbox beside offlineimap3 and mbsync, and one that finds nothing new.

    python -m bench.connectors.speed --mails 100000 --bytes 4096

A real Dovecot on loopback; the mails are written into its Maildir and indexed before anything is measured. Rows:

    stored      from the first command until every mail is an item in MongoDB's wire (parsed, attachments stored)
    tasks       the same, and a PendingTask for each by a request to an apiserver that only counts
    mbsync, offlineimap3   the same mailbox into a Maildir, nothing parsed; their settings are Debian's

Rounds alternate; figures are medians. CPU is user and system time of each program itself: neither Dovecot nor MongoDB
nor the apiserver are in it. JSON on stdout; exit status 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import pwd
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.connectors import mails, outside, polling
from bench.operator import processes
from hack.cluster import prerequisites, progress
from tests.sources import dovecot

USER = "ada"
ROOT = Path(__file__).resolve().parents[2]
TARGETS = {"times_offlineimap3": 3.0, "times_mbsync": 0.5, "peak_mib": 120.0, "again_imap": 10, "again_ms": 200.0}
_MBSYNC = """
IMAPAccount far
Host 127.0.0.1
Port {port}
User {user}
Pass {password}
SSLType None
AuthMechs LOGIN
Timeout 120

IMAPStore far
Account far

MaildirStore near
Path {folder}/mail/
Inbox {folder}/mail/INBOX

Channel all
Far :far:
Near :near:
Create Near
Sync Pull
SyncState *
"""
_OFFLINEIMAP = """
[general]
accounts = a
metadata = {folder}/state
ui = quiet
[Account a]
localrepository = near
remoterepository = far
[Repository near]
type = Maildir
localfolders = {folder}/mail
[Repository far]
type = IMAP
remotehost = 127.0.0.1
remoteport = {port}
remoteuser = {user}
remotepass = {password}
ssl = no
starttls = no
readonly = True
folderfilter = lambda name: name == 'INBOX'
"""


def fill(place: dovecot.Dovecot, count: int, size: int) -> int:
    """Write mails into the Maildir of `USER` and have Dovecot index them; their bytes."""
    owner, box, total = pwd.getpwnam("mail"), place.folder / "mail" / USER, 0
    for part in ("cur", "new", "tmp"):
        (box / part).mkdir(parents=True)
    for number in range(count):
        raw = mails.ordinary(number, size)
        virtual = len(raw) + raw.count(b"\n")
        (box / "cur" / f"{1790000000 + number}.M1P1.bench,S={len(raw)},W={virtual}:2,S").write_bytes(raw)
        total += len(raw)
    for one in (box, *box.rglob("*")):
        os.chown(one, owner.pw_uid, owner.pw_gid)
    with place.mailbox(USER) as client:
        client.sock.settimeout(600)
        said, [there] = client.select("INBOX", readonly=True)
        assert (said, int(there or b"0")) == ("OK", count), there
        client.fetch("1:*", "(RFC822.SIZE INTERNALDATE)")
    return total


async def ours(
    place: dovecot.Dovecot, folder: Path, mongodb: str, *, database: str = "bench", tasks: bool, profile: str = ""
) -> dict[str, Any]:
    """Read the mailbox by the sources' code in a process of its own."""
    wire = outside.Outside({"mailbox": {"username": USER, "password": dovecot.PASSWORD}})
    async with wire.serving():
        given = polling.Settings(
            mongodb, str(wire.kubeconfig(folder)), wire.url, place.url, tasks, profile, database
        )  # fmt: skip
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.connectors.polling", json.dumps(dataclasses.asdict(given)), cwd=ROOT,
            stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        said, _ = await child.communicate()
    assert child.returncode == 0, f"the polls ended with {child.returncode}"
    found = json.loads(said)
    return {
        "seconds": found["first"]["seconds"], "cpu": found["first"]["cpu"], "peak_mib": found["peak_mib"],
        "items": found["first"]["items"].get("Indexed", 0), "tasks": len(wire.names), "twice": wire.twice,
        "again_imap": max(one["imap"] for one in found["again"]),
        "again_mongodb": max(one["mongodb"] for one in found["again"]),
        "again_ms": 1000 * statistics.median(one["seconds"] for one in found["again"]),
        "imap": found["first"]["imap"], "mongodb": found["first"]["mongodb"], "idle_mib": found["idle_mib"],
    }  # fmt: skip


def other(place: dovecot.Dovecot, folder: Path, name: str) -> dict[str, Any]:
    """Copy the mailbox into a Maildir by another program, then once more without news."""
    (folder / "mail").mkdir()
    text, flags = (_MBSYNC, ["mbsync", "-q", "-c"]) if name == "mbsync" else (_OFFLINEIMAP, ["offlineimap", "-c"])
    config = folder / "config"
    config.write_text(text.format(port=place.port, user=USER, password=dovecot.PASSWORD, folder=folder))
    command = [*flags, str(config), *(["all"] if name == "mbsync" else ["-o"])]
    seconds, cpu, peak = _timed(command, folder)
    again, again_cpu, _ = _timed(command, folder)
    copied = sum(1 for one in (folder / "mail").rglob("*") if one.is_file() and one.parent.name in ("cur", "new"))
    return {"seconds": seconds, "cpu": cpu, "peak_mib": peak, "items": copied,
            "again_ms": again * 1000, "again_cpu_ms": again_cpu * 1000}  # fmt: skip


def _timed(command: Sequence[str], folder: Path) -> tuple[float, float, float]:
    """(seconds, CPU seconds, MiB at the most)."""
    begun, peak = time.monotonic(), 0.0
    child = subprocess.Popen(command, env={**os.environ, "HOME": str(folder)}, stdout=subprocess.DEVNULL)
    while True:
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        with contextlib.suppress(OSError):
            peak = max(peak, processes.peak(child.pid))
        time.sleep(0.02)
    seconds, child.returncode = time.monotonic() - begun, os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, f"{command[0]} ended with {child.returncode}"
    return seconds, used.ru_utime + used.ru_stime, peak


async def compare(given: argparse.Namespace) -> dict[str, Any]:
    """All rounds of all rows."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in given.rows}
    with dovecot.running() as place:
        size = await asyncio.to_thread(fill, place, given.mails, given.bytes)
        for _ in range(given.rounds):
            for name, found in rows.items():
                with tempfile.TemporaryDirectory(prefix="bench-mailbox-") as at:
                    if name in ("stored", "tasks"):
                        with outside.mongodb(Path(at)) as uri:
                            tasks = name == "tasks"
                            found.append(await ours(place, Path(at), uri, tasks=tasks, profile=given.profile))
                    else:
                        found.append(await asyncio.to_thread(other, place, Path(at), name))
                assert found[-1]["items"] == given.mails, f"{name}: {found[-1]}"
                print(name, json.dumps(found[-1]), file=sys.stderr, flush=True)
    middle = {name: _median(found, given.mails) for name, found in rows.items()}
    return {"mails": given.mails, "mib": round(size / 2**20, 1), "rounds": given.rounds, "load": os.getloadavg()[0],
            "rows": middle, **_against(middle)}  # fmt: skip


def _median(found: Sequence[dict[str, Any]], mails_there: int) -> dict[str, Any]:
    middle = {key: round(statistics.median(float(one[key]) for one in found), 2) for key in found[0]}
    per = {"mails_a_second": mails_there / middle["seconds"], "cpu_us_a_mail": 1e6 * middle["cpu"] / mails_there}
    return {**{key: round(value, 1) for key, value in per.items()}, **middle}


def _against(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Ratios of the row `stored`, and which targets are missed."""
    mine = rows.get("stored")
    if mine is None:
        return {}
    found = {key: mine[key] for key in ("peak_mib", "again_imap", "again_ms")}
    for name in ("offlineimap3", "mbsync"):
        if name in rows:
            found[f"times_{name}"] = round(rows[name]["seconds"] / mine["seconds"], 2)
            found[f"cpu_times_{name}"] = round(rows[name]["cpu"] / mine["cpu"], 2)
    missed = [
        key for key, wanted in TARGETS.items()
        if key in found and (found[key] < wanted if key.startswith("times") else found[key] > wanted)
    ]  # fmt: skip
    return {"against": found, "missed": missed}


def main(arguments: list[str]) -> int:
    """Measure; 0 when every target is met."""
    parser = argparse.ArgumentParser(prog="python -m bench.connectors.speed", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    every = ("stored", "tasks", "mbsync", "offlineimap3")
    parser.add_argument("--mails", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=4096, help="of a mail, about")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", nargs="+", choices=every, default=every)
    parser.add_argument("--profile", default="", help="where the last row of ours writes what cProfile found")
    given = parser.parse_args(arguments)
    prerequisites.install(prerequisites.SERVERS | prerequisites.BENCH, progress.Progress())
    assert shutil.which("mbsync")
    found = asyncio.run(compare(given))
    print(json.dumps(found, indent=1))  # the answer
    return 1 if found.get("missed") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
