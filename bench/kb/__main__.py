"""`python -m bench.kb retrieval|ingest|latency`: the knowledge base's benchmarks. Each prints one JSON document.

    eval "$(python -m hack.cluster env)"
    python -m bench.kb retrieval --corpus C.jsonl.gz --questions Q.jsonl.gz [--triples T.jsonl.gz] --out R.json
    python -m bench.kb ingest --corpus C.jsonl.gz [--passages N]
    python -m bench.kb latency --corpus C.jsonl.gz --questions Q.jsonl.gz [--passages N]

Weaviate is taken from --weaviate, or from the variables that the tests use. Embeddings come from simulated Ollamas that
run the real all-MiniLM-L6-v2 (--processes, one thread each), from --ollama URL, or from a file of --vectors. With
--keep a later run goes on where an earlier one stopped, and asks what is there; --copies makes a corpus larger.
Weaviate of the local services takes some 60,000 chunks; JERVIS_WEAVIATE_MEMORY=6GiB make services-up for more.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import structlog
import uvloop

from bench.kb import corpus, latency, replay, retrieval, speed, usage, world
from kb.ingest import document
from kb.retrieve import rank

_WEAVIATE = "http://198.18.0.2:8080"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.kb", description="Benchmarks of the knowledge base.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("retrieval", "ingest", "latency"):
        command = commands.add_parser(name)
        command.add_argument("--corpus", type=Path, required=True)
        command.add_argument("--questions", type=Path, required=name != "ingest")
        command.add_argument("--triples", type=Path)
        command.add_argument("--out", type=Path, help="file for the JSON (printed in any case)")
        command.add_argument("--passages", type=int, default=0, help="only the first N (0: all)")
        command.add_argument("--limit", type=int, default=0, help="only the first N questions (0: all)")
        command.add_argument("--half", choices=[*corpus.HALVES, "all"], default="all", help="which of the questions")
        command.add_argument("--weaviate", default=os.environ.get("JERVIS_TEST_WEAVIATE_URL", _WEAVIATE))
        command.add_argument("--grpc", type=int, default=int(os.environ.get("JERVIS_TEST_WEAVIATE_GRPC_PORT", "50051")))
        command.add_argument("--ollama", help="URL of an Ollama or router; without it simulators are started")
        command.add_argument("--vectors", type=Path, help="file of vectors; none is computed twice")
        command.add_argument("--memory", action="store_true", help="without Weaviate (retrieval; bench.kb.inmemory)")
        command.add_argument("--processes", type=int, default=4, help="simulated Ollamas")
        command.add_argument("--chunk-chars", type=int, default=4000)
        command.add_argument("--overlap", type=int, default=200)
        command.add_argument("--writers", type=int, default=32)
        command.add_argument("--copies", type=int, default=1, help="the corpus so many times, with names of their own")
        command.add_argument(
            "--types", type=int, choices=range(1, replay.MOST_TYPES + 1), default=1, help="types given to one thing"
        )
        command.add_argument("--keep", type=Path, help="folder in which what was ingested stays for the next run")
        command.add_argument("--watch", action="append", default=[], metavar="NAME=PID", help="memory of others too")
        command.add_argument("--at-once", type=int, nargs="+", default=[1, 8], help="callers at once (latency)")
        command.add_argument("--alpha", type=float, help="share of the dense score; without it the service's own")
    return parser


def _place(options: argparse.Namespace) -> world.Place:
    return world.Place(
        weaviate=options.weaviate,
        grpc=options.grpc,
        limits=document.Limits(chunk_chars=options.chunk_chars, chunk_overlap=options.overlap),
        ollama=options.ollama,
        vectors=options.vectors,
        processes=options.processes,
        keep=options.keep,
    )


async def _run(options: argparse.Namespace) -> dict[str, Any]:
    passages = corpus.load(
        options.corpus, options.triples, limit=options.passages, times=options.copies, types=options.types
    )
    place, writers, watched = _place(options), options.writers, usage.named(options.watch)
    if options.command == "ingest":
        return await speed.ingest(place, passages, writers=writers, watched=watched)
    questions, unknown = (
        corpus.questions(options.questions, limit=options.limit, half=options.half, answerable=there)
        for there in (True, False)
    )
    if options.command == "latency":
        return await latency.run(place, passages, questions, writers=writers, at_once=options.at_once, watched=watched)
    weights = rank.Weights() if options.alpha is None else rank.Weights(alpha=options.alpha)
    if options.memory:
        return await retrieval.run_in_memory(place, passages, questions, unknown, weights=weights)
    return await retrieval.run(place, passages, questions, unknown, writers=writers, weights=weights)


def main() -> None:
    """Prints one JSON document."""
    options = _parser().parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    text = json.dumps(uvloop.run(_run(options)), indent=2)
    sys.stdout.write(text + "\n")
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
