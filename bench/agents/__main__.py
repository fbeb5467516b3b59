"""Measure the delegating run; one JSON document on stdout, progress on stderr.

    eval "$(python -m hack.cluster env)"          # MongoDB's wire; `make services-up` starts it
    python -m bench.agents crashes --runs 1000    # kill -9 at each kind of boundary, beside plain LangGraph
    python -m bench.agents crashes --every --runs 300    # at every point of the first seeds, one after another
    python -m bench.agents trees --trees 10000    # overspend of one budget, beside a counter read before each call
    python -m bench.agents preempt --runs 20      # SIGTERM with eight calls of sixty seconds in flight
    python -m bench.agents steps --runs 10        # overhead of a step with 1 MB of evidence
    python -m bench.agents resume --runs 20       # kill -9 to the next node, with an interpreter from nothing
    python -m bench.agents runaway --runs 1000    # scripts of a model that repeats itself without end
    python -m bench.agents short --runs 20        # a question that one look answers, without flags and with all of them

Exit status 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys

import structlog

from bench.agents import crashes, runaway, short, steps, times, trees
from bench.agents.report import Report


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.agents", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("case", choices=["crashes", "trees", "preempt", "steps", "resume", "runaway", "short"])
    parser.add_argument("--runs", type=int, default=20, help="how many, of all but trees")
    parser.add_argument("--trees", type=int, default=1000, help="how many trees")
    parser.add_argument("--seed", type=int, default=1, help="of the first run or tree; the next ones follow it")
    parser.add_argument("--lost", type=float, default=crashes.LOST, help="share of lost acknowledgements, for crashes")
    parser.add_argument("--at-once", type=int, default=2, help="runs at once, for crashes")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="no run is begun later, for crashes")
    parser.add_argument("--every", action="store_true", help="crashes at every point of each seed, without plain graph")
    parser.add_argument("--alone", action="store_true", help="crashes without the plain graph")
    parser.add_argument("--grace", help="JERVIS_DRAIN_GRACE_SECONDS, for preempt; default: that of the settings")
    parser.add_argument("--forked", action="store_true", help="resume with an interpreter that has its imports")
    return parser


async def _run(options: argparse.Namespace) -> Report:
    match options.case:
        case "crashes" if options.every:
            return await crashes.run_enumerated(options.runs, options.seed, options.lost, options.at_once)
        case "crashes":
            return await crashes.run(
                options.runs,
                options.seed,
                options.lost,
                options.at_once,
                reference=not options.alone,
                minutes=options.minutes,
            )
        case "trees":
            return await trees.run(options.trees, options.seed)
        case "preempt":
            return await times.preempt(options.runs, grace=options.grace)
        case "steps":
            return await steps.run(options.runs)
        case "resume":
            return await times.resume(options.runs, forked=options.forked)
        case "short":
            return await short.run(options.runs)
        case _:
            return await runaway.run(options.runs, options.seed)


def main() -> int:
    """Prints one JSON document; 0 when no target is missed."""
    options = _parser().parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the image has its bytecode, and so has a run that starts here
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    before = os.getloadavg()[0]
    report = asyncio.run(_run(options))
    load = {"before": round(before, 2), "after": round(os.getloadavg()[0], 2), "cores": os.cpu_count()}
    found = {"case": options.case, "seed": options.seed, "load": load, **report.document()}
    print(json.dumps(found, indent=2))
    return 1 if report.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
