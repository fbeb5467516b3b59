"""`python -m bench.agent_search [--runs N] [--seed S] [--outages]`: runs of the decision agent whose model decides wrongly.

It needs no services. Prints one JSON document; the exit status is 1 when a run ended in a way that it must not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Sequence

import structlog

from bench.agent_search import wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.agent_search", description=wrong.__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--outages", action="store_true", help="the model is busy and breaks off, too")
    asked = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    found = asyncio.run(wrong.measure(asked.runs, asked.seed, outages=asked.outages))
    print(json.dumps(found, indent=2))
    return 1 if found["problemCount"] or found["executedTwice"] else 0


if __name__ == "__main__":
    sys.exit(main())
