"""How fast sources are read, what the event loop of the caller feels of it, and memory; beside a plain loop.

Rows, alternating; figures are medians:

    extracted    codegraph.extract.pool from a coroutine, worker processes and all, with a heartbeat task beside it
    plain        one process that parses each file and asks the same query, makes no names and keeps nothing
    in_thread    that loop in a thread of the event loop's process, with the heartbeat
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import tree_sitter

from bench.codegraph import trees
from bench.operator import processes
from codegraph.extract import budget, pool
from codegraph.parse import grammars, languages
from hack.cluster import progress

TARGETS = {"seconds_for_100": 0.2, "stall_ms": 50.0}
_BEAT = 0.002
_ROWS = ("extracted", "plain", "in_thread")
_NAMES = ("standard library", "k8s.io/client-go", "guava-33.5.0-jre", "okhttp-jvm-5.5.1")


def measure(most: int, rounds: int = 3) -> dict[str, Any]:
    """Figures of at most `most` files in four languages."""
    report, chosen = progress.Progress(), [tree for tree in trees.ALL if tree.name in _NAMES]
    with tempfile.TemporaryDirectory(prefix="bench-codegraph-") as scratch:
        for tree in chosen:
            trees.copy(tree, Path(scratch, tree.language), most // len(chosen), report)
        found: dict[str, list[dict[str, float]]] = {row: [] for row in _ROWS}
        for _ in range(rounds):
            for row in _ROWS:
                command = [sys.executable, "-m", "bench.codegraph.speed", row, scratch]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=trees.ROOT)
                found[row].append(json.loads(done.stdout))
    rows = {row: {key: round(statistics.median(one[key] for one in some), 3) for key in some[0]}
            for row, some in found.items()}  # fmt: skip
    missed = [key for key, wanted in TARGETS.items() if rows["extracted"][key] > wanted]
    times = round(rows["extracted"]["seconds"] / rows["plain"]["seconds"], 2)
    return {"rounds": rounds, "load": round(os.getloadavg()[0], 1), "cores": pool.processors(), "rows": rows,
            "times_plain": times, "missed": missed}  # fmt: skip


def plain(paths: Sequence[Path]) -> int:
    """Parse and query each file; the captured nodes."""
    nodes, parsers = 0, dict[str, tree_sitter.Parser]()
    for path in paths:
        language = grammars.language_of(path.name)
        assert language, path
        if language not in parsers:
            parsers[language] = tree_sitter.Parser(grammars.load(language))
        tree = parsers[language].parse(path.read_bytes())
        found = tree_sitter.QueryCursor(languages.query(language)).captures(tree.root_node)
        nodes += sum(len(some) for some in found.values())
    return nodes


async def _beside(work: Awaitable[object]) -> float:
    """The largest delay of a heartbeat while `work` ran, in milliseconds."""
    worst, over = 0.0, asyncio.Event()

    async def beat() -> None:
        nonlocal worst
        while not over.is_set():
            begun = time.monotonic()
            await asyncio.sleep(_BEAT)
            worst = max(worst, time.monotonic() - begun - _BEAT)

    task = asyncio.create_task(beat())
    await asyncio.sleep(10 * _BEAT)
    await work
    over.set()
    await task
    return worst * 1000


async def _one(row: str, folder: Path, paths: Sequence[Path]) -> dict[str, float]:
    size, stall, begun = sum(path.stat().st_size for path in paths), 0.0, time.monotonic()
    if row == "extracted":
        whole = budget.Budget(files=len(paths), seconds=600)
        stall = await _beside(pool.extract(folder, whole))
    elif row == "plain":
        plain(paths)
    else:
        stall = await _beside(asyncio.to_thread(plain, paths))
    seconds = time.monotonic() - begun
    mine, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = sum(one.ru_utime + one.ru_stime for one in (mine, children))
    return {
        "files": len(paths), "mb": size / 1e6, "seconds": seconds, "cpu": cpu, "files_a_second": len(paths) / seconds,
        "mb_a_second": size / 1e6 / seconds, "seconds_for_100": 100 * seconds / len(paths), "stall_ms": stall,
        "peak_mib": processes.peak(os.getpid()), "worker_peak_mib": children.ru_maxrss / 1024,
    }  # fmt: skip


if __name__ == "__main__":
    below = Path(sys.argv[2])
    there = sorted(path for path in below.rglob("*") if path.is_file())
    print(json.dumps(asyncio.run(_one(sys.argv[1], below, there))))
