"""`python -m bench.agent_search [wrong|first-line]`: the decision agent whose model decides wrongly.

    python -m bench.agent_search [--runs N] [--seed S] [--outages]           how such runs end; needs no services
    python -m bench.agent_search first-line --mongodb URI [--at-once N]      time until the first line of an answer

Prints one JSON document; the exit status is 1 when a run ended in a way that it must not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence

import structlog

from bench.agent_search import firstline, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.agent_search", description=wrong.__doc__)
    parser.add_argument("what", nargs="?", choices=["wrong", "first-line"], default="wrong")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--outages", action="store_true", help="the model is busy and breaks off, too")
    parser.add_argument("--mongodb", default=os.environ.get("JERVIS_TEST_MONGODB_URI", ""))
    parser.add_argument("--at-once", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10)
    asked = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    if asked.what == "first-line":
        found = asyncio.run(firstline.measure(asked.mongodb, at_once=asked.at_once, rounds=asked.rounds))
    else:
        found = asyncio.run(wrong.measure(asked.runs, asked.seed, outages=asked.outages))
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 1 if found.get("problemCount") or found.get("executedTwice") else 0


if __name__ == "__main__":
    sys.exit(main())
