"""`python -m bench.kb retrieval|ingest|latency`: the knowledge base's benchmarks. Each prints one JSON document.

    eval "$(python -m hack.cluster env)"
    python -m bench.kb retrieval --corpus C.jsonl.gz --questions Q.jsonl.gz [--triples T.jsonl.gz] --out R.json
    python -m bench.kb ingest --corpus C.jsonl.gz [--passages N]
    python -m bench.kb latency --corpus C.jsonl.gz --questions Q.jsonl.gz [--passages N]

Weaviate is taken from --weaviate, or from the variables that the tests use. Embeddings come from simulated Ollamas that
run the real all-MiniLM-L6-v2 (--processes, one thread each), or from --ollama URL.
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

from bench.kb import corpus, retrieval, speed

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
        command.add_argument("--weaviate", default=os.environ.get("JERVIS_TEST_WEAVIATE_URL", _WEAVIATE))
        command.add_argument("--grpc", type=int, default=int(os.environ.get("JERVIS_TEST_WEAVIATE_GRPC_PORT", "50051")))
        command.add_argument("--ollama", help="URL of an Ollama or router; without it simulators are started")
        command.add_argument("--processes", type=int, default=4, help="simulated Ollamas")
        command.add_argument("--chunk-chars", type=int, default=4000)
        command.add_argument("--overlap", type=int, default=200)
        command.add_argument("--writers", type=int, default=32)
        command.add_argument("--alpha", type=float, help="share of the dense score; without it the service's own")
    return parser


async def _run(options: argparse.Namespace) -> dict[str, Any]:
    passages = corpus.load(options.corpus, options.triples, limit=options.passages)
    if options.command == "ingest":
        return await speed.ingest(passages, options)
    questions = corpus.questions(options.questions, limit=options.limit)
    if options.command == "latency":
        return await speed.latency(passages, questions, options)
    return await retrieval.run(passages, questions, options)


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
