"""`python -m bench.agents.startup`: how long a run takes to begin, cold and from a waiting pod.

    eval "$(python -m hack.cluster env)"
    python -m bench.agents.startup                     # imports, a process from nothing, one that waits for its task
    python -m bench.agents.startup --beside ../other   # the imports of another checkout as well, in turns

Imports: CPU seconds of an interpreter (the least of the rounds, as other work only adds to it), modules, memory, and
the packages that take most of it. Starts: seconds until the first node of the graph begins and until the answer, each
with a real MongoDB and simulated models; the container's own start is not in it. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pymongo
from aiohttp import web

from contracts.api import warm_assignment
from tests.fakes.ollama import process
from tests.nursery import children
from tests.orchestrator_job import job, knowledge

ROOT = Path(__file__).resolve().parents[2]
_MODULES = (
    "orchestrator_job.__main__, orchestrator_job.settings, orchestrator_job.run.lifecycle, orchestrator_job.run.graph"
)
_MODULES += ", orchestrator_job.run.checkpoints"
_COUNT = f"""import {_MODULES}, resource, sys
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, len(sys.modules), used.ru_maxrss)"""
_OWN = ("JERVIS_TASK_UID", "JERVIS_TASK_NAME", "JERVIS_TASK_NAMESPACE")


def imports(root: Path, rounds: int) -> dict[str, Any]:
    """What the imports of a run cost in a checkout, before its first node."""
    found = [_python(root, "-c", _COUNT).stdout.split() for _ in range(rounds)]
    seconds, modules, memory = min(found, key=lambda one: float(one[0]))
    return {"cpu_seconds": round(float(seconds), 3), "modules": int(modules), "rss_mib": int(memory) // 1024}


def packages(root: Path, rounds: int) -> dict[str, int]:
    """Milliseconds that the ten dearest packages take by themselves (`-X importtime`; the least of the rounds)."""
    least: dict[str, int] = {}
    for _ in range(rounds):
        for line in _python(root, "-X", "importtime", "-c", f"import {_MODULES}").stderr.splitlines():
            own, _, module = line.removeprefix("import time:").split("|") if line.count("|") == 2 else ("", "", "")
            if own.strip().isdigit():
                least[module.strip()] = min(int(own), least.get(module.strip(), int(own)))
    total: Counter[str] = Counter()
    for module, micros in least.items():
        total[module.partition(".")[0]] += micros
    return {name: micros // 1000 for name, micros in total.most_common(10)}


def _python(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(
        [sys.executable, *words], cwd=root, env=environment, capture_output=True, text=True, check=True
    )


class Operator:
    """The operator's side of the handover: one task, for the request that waits when it comes."""

    def __init__(self) -> None:
        self.url = ""
        self.asked = asyncio.Event()
        self.task: asyncio.Future[warm_assignment.Given] = asyncio.get_running_loop().create_future()

    async def answer(self, request: web.Request) -> web.Response:
        """GET /api/v1/handover"""
        self.asked.set()
        return web.Response(text=(await self.task).model_dump_json(), content_type="application/json")


@asynccontextmanager
async def _operator() -> AsyncIterator[Operator]:
    operator, application = Operator(), web.Application()
    application.router.add_get(warm_assignment.PATH, operator.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    operator.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield operator
    finally:
        await runner.cleanup()


async def starts(folder: Path, uri: str, rounds: int) -> dict[str, Any]:
    """Seconds to the first node and to the answer: of a process from nothing, and of one that waits for its task."""
    seconds: dict[str, dict[str, list[float]]] = {
        kind: {"first_node": [], "answered": []} for kind in ("cold", "claimed")
    }
    name = f"bench_startup_{uuid.uuid4().hex[:8]}"
    client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(uri, tz_aware=True)
    try:
        with process.running(num_parallel=8) as fake:
            fake.set_script({job.TAG: [job.reply()] * (2 * rounds)})
            async with knowledge.serving() as known:
                for _ in range(rounds):
                    for kind in seconds:
                        made = job.Job(folder, uri, name, known.url, fake.url)
                        job.Store(client, name).remember(made.memory())
                        for what, took in (await _start(made, warm=kind == "claimed")).items():
                            seconds[kind][what].append(took)
    finally:
        client.drop_database(name)
        client.close()
    return {
        kind: {
            f"{what}_seconds": {"p50": round(statistics.median(values), 3), "most": round(max(values), 3)}
            for what, values in taken.items()
        }
        for kind, taken in seconds.items()
    }


async def _start(made: job.Job, *, warm: bool) -> dict[str, float]:
    own = {name: made.environment[name] for name in _OWN} | {"JERVIS_ATTEMPT": "1"}
    log, message = made.folder / f"log-{made.uid}", made.folder / f"message-{made.uid}"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JERVIS_")}
    environment |= made.environment | {"JERVIS_TERMINATION_LOG": str(message), "JERVIS_ATTEMPT": "1"}
    async with _operator() as operator:
        if warm:
            environment = {key: value for key, value in environment.items() if key not in own}
            environment["JERVIS_HANDOVER_URL"] = operator.url
        began = time.time()
        running = children.interpreted(["orchestrator_job"], environment, log, ROOT)
        if warm:
            await operator.asked.wait()
            began = time.time()
            operator.task.set_result(warm_assignment.Given(environment=own))
        status = await asyncio.to_thread(running.wait)
    lines = {line["event"]: line for line in map(json.loads, filter(_json, log.read_text().splitlines()))}
    assert status == 0, log.read_text()
    return {what: _moment(lines[event]) - began for what, event in (("first_node", "thread"), ("answered", "ended"))}


def _json(line: str) -> bool:
    return line.startswith("{")


def _moment(line: dict[str, Any]) -> float:
    return datetime.fromisoformat(line["timestamp"]).timestamp()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.agents.startup", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--beside", type=Path, help="path of another checkout")
    options = parser.parse_args()
    report: dict[str, Any] = {"load_average": os.getloadavg()[0], "imports": imports(ROOT, options.rounds)}
    if options.beside:
        report["imports_beside"] = imports(options.beside.resolve(), options.rounds)
    report["packages_ms"] = packages(ROOT, options.rounds)
    uri = os.environ.get("JERVIS_TEST_MONGODB_URI")
    if uri:
        with tempfile.TemporaryDirectory() as folder:
            report["starts"] = asyncio.run(starts(Path(folder), uri, options.rounds))
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
