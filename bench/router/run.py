"""Measure the router next to its backend in one run and print one JSON document.

    python -m bench.router.run                       own load generator and backend, on loopback
    python -m bench.router.run --seconds 3 --rounds 3 --streams 256
    python -m bench.router.run --beside ../other     the router of another checkout as well, in the same run
    python -m bench.router.run --shared PATH/bench.py --target http://127.0.0.1:19000   hand over to another bench

`direct` is the same load without the router, interleaved with it round by round, and so is `beside`. On a busy machine
only the ratios and the CPU seconds mean something. The scheduler's own figures (enqueue and dispatch beside a long
queue) stand under `scheduler`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from bench.router import load, plan

ROOT = Path(__file__).resolve().parents[2]
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    """Run; 0 when every request was answered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=3, help="medians are taken over so many")
    parser.add_argument("--streams", type=int, default=128, help="streams at once in the stream test")
    parser.add_argument("--waiting", type=int, default=10_000, help="queue length of the scheduler test")
    parser.add_argument("--beside", type=Path, help="path of another checkout, of an older commit for example")
    parser.add_argument("--shared", help="path of another bench.py: run that instead")
    parser.add_argument("--target", help="URL of a running router, for --shared")
    arguments = parser.parse_args()
    if arguments.shared:
        return subprocess.run([sys.executable, arguments.shared, arguments.target]).returncode
    document = asyncio.run(_measure(arguments))
    print(json.dumps(document, indent=2))
    return 1 if document["errors"] else 0


async def _measure(arguments: argparse.Namespace) -> dict[str, Any]:
    server, port = start(["-m", "bench.router.backend"], {}, "listening")
    specs = json.dumps([{"name": "b", "url": f"http://127.0.0.1:{port}", "numParallel": 4096}])
    environment = {"GPU_BACKENDS": specs, "JERVIS_ROUTER_PORT": "0", "JERVIS_ROUTER_HOST": "127.0.0.1"}
    routers, ports = {}, {"direct": port}
    routers["router"], ports["router"] = start(["-m", "router"], environment, "serving")
    if arguments.beside:
        routers["beside"], ports["beside"] = start(["-m", "router"], environment, "serving", root=arguments.beside)
    try:
        for where in ports.values():  # warm up
            await load.embeddings(where, connections=8, seconds=0.3)
        idle = usage(routers["router"].pid)[1]
        runs: dict[str, dict[str, list[dict[str, float]]]] = {name: {} for name in ports}
        for round_ in range(arguments.rounds):
            order = list(ports.items())
            for name, where in order if round_ % 2 else reversed(order):
                for test, result in [
                    ("embed_c1", load.embeddings(where, connections=1, seconds=arguments.seconds / 2)),
                    ("embed_c64", load.embeddings(where, connections=64, seconds=arguments.seconds)),
                    ("streams", load.streams(where, connections=arguments.streams, seconds=arguments.seconds)),
                ]:
                    process = routers.get(name, server)
                    before = usage(process.pid)[0]
                    figures = await result
                    figures["cpu_seconds"] = usage(process.pid)[0] - before
                    runs[name].setdefault(test, []).append(figures)
        after = usage(routers["router"].pid)[1]
        return _report(runs, idle, after) | {"scheduler": plan.measure(arguments.waiting)}
    finally:
        for process in (*routers.values(), server):
            process.terminate()
            process.wait(20)


def start(
    arguments: list[str], environment: dict[str, str], event: str, *, root: Path = ROOT
) -> tuple[subprocess.Popen[bytes], int]:
    """A process of the checkout at `root` that logs JSON lines to stderr; waits for the event that names its port."""
    environment = os.environ | environment | {"PYTHONPATH": str(root.resolve())}
    process = subprocess.Popen([sys.executable, *arguments], cwd=root, env=environment, stderr=subprocess.PIPE)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(b"{") and (seen := json.loads(line))["event"] == event:
            # Read on, or the process would stop when the pipe is full.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, int(seen["port"])
    raise SystemExit(f"{arguments} ended with status {process.wait()}")


def usage(pid: int) -> tuple[float, float]:
    """CPU seconds so far and resident MiB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICK, int(fields[21]) * _PAGE / 2**20


def _report(runs: dict[str, dict[str, list[dict[str, float]]]], idle: float, after: float) -> dict[str, Any]:
    def median(name: str, test: str, key: str) -> float:
        return statistics.median(run[key] for run in runs[name][test])

    def per(name: str, test: str, scale: float) -> float:
        return statistics.median(run["cpu_seconds"] / max(run["count"], 1) * scale for run in runs[name][test])

    document: dict[str, Any] = {
        test: {
            name: {key: round(median(name, test, key), 4) for key in runs[name][test][0] if key != "cpu_seconds"}
            for name in runs
        }
        for test in runs["direct"]
    }
    document["ratios"] = {
        test: round(median("router", test, "per_second") / median("direct", test, "per_second"), 3)
        for test in ("embed_c64", "streams")
    }
    document["added_ms_c1"] = {
        key: round(median("router", "embed_c1", key) - median("direct", "embed_c1", key), 3) for key in ("p50", "p99")
    }
    for cpu, name in (("cpu", "router"), ("cpu_beside", "beside")):
        if name in runs:
            document[cpu] = {
                "seconds_per_10k_embeds": round(per(name, "embed_c64", 1e4), 3),
                "microseconds_per_token": round(per(name, "streams", 1e6), 2),
            }
    document["rss_mib"] = {"idle": round(idle, 1), "after": round(after, 1)}
    document["errors"] = int(sum(r["errors"] for tests in runs.values() for rs in tests.values() for r in rs))
    document["load_average"] = os.getloadavg()
    return document


if __name__ == "__main__":
    sys.exit(main())
