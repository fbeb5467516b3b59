"""`python -m bench.agent_search [wrong|first-line|evaluate]`: the decision agent with models that are simulated.

    python -m bench.agent_search [--runs N] [--seed S] [--outages]           how wrong decisions end; needs no services
    python -m bench.agent_search first-line --mongodb URI [--at-once N]      time until the first line of an answer
    python -m bench.agent_search evaluate --data FOLDER --sets 2wiki ...     which passages it collects; no services

FOLDER has SET.corpus.jsonl.gz, SET.questions.public.jsonl.gz, and SET.triples.jsonl.gz where there are triples, as
`bench.kb.corpus` reads them. Rules decide (`bench.agent_search.maker`), or, where JERVIS_TEST_OLLAMA_URL is set, the
model JERVIS_TEST_OLLAMA_MODEL there. Prints one JSON document; the exit status is 1 when a run ended in a way that it
must not, or a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import structlog

from bench import variables
from bench.agent_search import evaluate, firstline, wrong
from bench.kb import world
from kb.ingest import document


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.agent_search", description=wrong.__doc__)
    parser.add_argument("what", nargs="?", choices=["wrong", "first-line", "evaluate"], default="wrong")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--outages", action="store_true", help="the model is busy and breaks off, too")
    parser.add_argument("--mongodb", help="without it JERVIS_TEST_MONGODB_URI")
    parser.add_argument("--at-once", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--data", type=Path, default=Path("."), help="folder of the sets")
    parser.add_argument("--sets", nargs="+", default=["2wiki", "musique_pool"])
    parser.add_argument("--limit", type=int, default=0, help="only the first N questions of a set (0: all)")
    parser.add_argument("--hits", type=int, default=5, help="passages of a search, as agentHits")
    parser.add_argument("--vectors", type=Path, help="file of embeddings; none is computed twice")
    asked = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    if asked.what == "first-line":
        mongodb = asked.mongodb or variables.required("JERVIS_TEST_MONGODB_URI")
        found = asyncio.run(firstline.measure(mongodb, at_once=asked.at_once, rounds=asked.rounds))
    elif asked.what == "evaluate":
        place = world.Place("", 0, document.Limits(), vectors=asked.vectors, processes=1)
        url, model = os.environ.get("JERVIS_TEST_OLLAMA_URL"), os.environ.get("JERVIS_TEST_OLLAMA_MODEL")
        found = asyncio.run(
            evaluate.measure(
                place,
                asked.data,
                asked.sets,
                limit=asked.limit,
                hits=asked.hits,
                ollama=url or None,
                model=model or world.MODEL,
            )
        )
    else:
        found = asyncio.run(wrong.measure(asked.runs, asked.seed, outages=asked.outages))
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 1 if found.get("problemCount") or found.get("executedTwice") else 0


if __name__ == "__main__":
    sys.exit(main())
