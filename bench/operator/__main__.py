"""Measure the operator; one JSON document on stdout, the raw samples in files.

    eval "$(python -m hack.cluster env)"          # MongoDB's wire; `make services-up` starts it
    python -m bench.operator all
    python -m bench.operator lifecycle dispatch --cores 2 --samples /tmp/samples

Load is open-loop: every task has its moment by the harness's own clock, and latencies count from that moment. The
apiserver and etcd are real; pods are played; the knowledge base answers at once. All of it shares `--cores` cores,
except MongoDB's wire server, which is a service of the machine. Exit status 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from bench.operator import archive, flow, lists, processes, scale
from bench.operator.report import Report

CASES: dict[str, Callable[[Path], Coroutine[Any, Any, Report]]] = {
    "lifecycle": flow.lifecycle,
    "qualification": flow.qualification,
    "dispatch": flow.dispatch,
    "burst": flow.burst,
    "crowd": flow.crowd,
    "preemption": flow.preemption,
    "memory": scale.memory,
    "restart": scale.restart,
    "idle": scale.idle,
    "archive": archive.archive,
    "lists": lists.lists,
}


def main(arguments: list[str]) -> int:
    """Run the cases; 0 when every target is met."""
    parser = argparse.ArgumentParser(prog="python -m bench.operator", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("cases", nargs="+", choices=[*CASES, "all"])
    parser.add_argument("--cores", type=int, default=2, help="for everything together; 0: all there are")
    parser.add_argument("--samples", type=Path, help="directory for the raw samples; default: a new one in /tmp")
    parsed = parser.parse_args(arguments)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the image has its bytecode, and so has the operator here
    wanted = list(CASES) if "all" in parsed.cases else parsed.cases
    samples = parsed.samples or Path(tempfile.mkdtemp(prefix="bench-operator-"))
    samples.mkdir(parents=True, exist_ok=True)
    document: dict[str, object] = {"cores": processes.pin(parsed.cores), "samples": str(samples), "cases": {}}
    missed: dict[str, list[str]] = {}
    for name in wanted:
        load_before, begun = os.getloadavg()[0], time.monotonic()
        with (
            tempfile.TemporaryDirectory(prefix="bench-operator-site-") as directory,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            try:
                report = runner.run(CASES[name](Path(directory)))
            except (RuntimeError, TimeoutError, AssertionError) as error:
                # One case that cannot be measured must not take the figures of the others with it.
                report = Report({"failed": str(error)}, {"measured": (0.0, ">=", 1.0)})
        (samples / f"{name}.json").write_text(json.dumps(report.samples))
        found = {
            "figures": report.figures,
            "targets": {what: f"{sign} {target:g}" for what, (_, sign, target) in report.checks.items()},
            "missed": report.missed(),
            "load_before": round(load_before, 2),
            "seconds": round(time.monotonic() - begun, 1),
        }
        if report.missed():
            missed[name] = report.missed()
        document["cases"] |= {name: found}  # type: ignore[operator]  # a dict of ours
        print(f"{name}: {json.dumps(report.figures)}", file=sys.stderr, flush=True)
    document["missed"] = missed
    print(json.dumps(document, indent=2))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
