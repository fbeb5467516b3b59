"""The references, in the same run: what a bare client can do, and kopf's plain `on.create` handler.

The bare client creates tasks; then it creates tasks and writes the status of each once, while two watches are open as
the harness and an operator need them: the least that a task costs which ends without a Job, before anybody decides.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import kube
from bench.operator import flow, load
from bench.operator.feed import Feed
from bench.operator.report import Report, spread
from bench.operator.site import ROOT, Site, names, site, until

_HANDLED = "kopf.zalando.org/last-handled-configuration"


async def reference(directory: Path, *, count: int = 1_500, rate: float = 60.0, paced: int = 600) -> Report:
    """No target: the figures to read the others by."""
    report = Report()
    async with site(directory) as here:
        seconds = await load.crowd(names("raw", count), 50, here.submit)
        report.figures["raw_creations_per_second"] = round(count / seconds, 1)
        report.figures["raw_creations_with_a_status_per_second"] = round(count / await _watched(here, count), 1)
        for kind in ("raw", "seed"):
            await load.crowd(names(kind, count), 50, lambda name: here.api.delete(kube.TASKS, here.namespace, name))
        handled: dict[str, float] = {}

        def received(_: str, raw: kube.Object, at: float) -> None:
            if _HANDLED in raw["metadata"].get("annotations", {}):
                handled.setdefault(raw["metadata"]["name"], at)

        feed = Feed(here.loaded, here.http, kube.TASKS.path(here.namespace), received)
        await feed.begin()
        kopf = _start(here)
        try:
            await _handled(here, handled, list(names("warm", 20)))
            burst = list(names("burst", count))
            begun = time.monotonic()
            await load.crowd(burst, 50, here.submit)
            await until(lambda: _all(handled, burst), "kopf has handled the burst", 300.0)
            report.figures["kopf_burst_per_second"] = round(count / (max(map(handled.get, burst)) - begun), 1)  # type: ignore[type-var,operator]  # all are there
            even = list(names("paced", paced))
            sent = await load.paced(even, rate, here.submit)
            await until(lambda: _all(handled, list(sent.planned)), "kopf has handled them", 300.0)
            samples = {name: handled[name] - moment for name, moment in sent.planned.items()}
            report.samples["kopf"] = samples
            report.figures["kopf_paced"] = {"offered_per_second": rate, **spread(samples)}
        finally:
            await feed.end()
            kopf.send_signal(signal.SIGKILL)
            kopf.wait()
    return report


async def _watched(here: Site, count: int) -> float:
    """Seconds for so many tasks with a status each, which two watches tell of."""
    feeds = [Feed(here.loaded, here.http, kube.TASKS.path(here.namespace), lambda *_: None) for _ in range(2)]
    for feed in feeds:
        await feed.begin()
    try:
        return await flow.seed(here, count)
    finally:
        for feed in feeds:
            await feed.end()


def _start(here: Site) -> subprocess.Popen[bytes]:
    handler = Path(__file__).with_name("reference.py")
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "-n", here.namespace, str(handler)]
    environment = {**os.environ, "KUBECONFIG": str(here.server.kubeconfig), "PYTHONPATH": str(ROOT)}
    with (here.directory / "kopf.log").open("ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=here.directory)


async def _handled(here: Site, handled: dict[str, float], some: list[str]) -> None:
    await load.crowd(some, 4, here.submit)
    await until(lambda: _all(handled, some), "kopf handles", 60.0)


async def _all(handled: dict[str, float], some: list[str]) -> bool:
    return all(name in handled for name in some)
