"""`python -m bench.visual engine|questions|seeds`: each prints one JSON document.

    eval "$(python -m hack.cluster env)"
    python -m bench.visual engine --pages 1000 --sides pooled pooled-muvera muvera plain
    python -m bench.visual questions
    python -m bench.visual seeds --seeds 2 3 4 5 6 7     # needs no services

`engine`: synthetic pages of 700 vectors; recall@10 of exact MaxSim over all vectors, latency, bytes. Sides are
`pooled` (by 3, the default), `pooled-muvera`, `muvera` and `plain` (unpooled). Weaviate of the local services is
for tests: give another one by --weaviate and --grpc for more than 1,000 pages, its data by --data and its process by
--watch. `questions`: 60 questions about PDFs that the benchmark makes, with words alone beside words and images.
`seeds`: such questions for other seeds, in memory, beside plain BM25. The embedder is `tests.fakes.glyphs`: no quality
of a visual model is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path

from bench.visual import engine, questions, seeds

_WEAVIATE = "http://198.18.0.2:8080"


def main(arguments: list[str]) -> int:
    """Exit status: 1 where `seeds` misses its target; the JSON of the others says what is reached."""
    parser = argparse.ArgumentParser(prog="python -m bench.visual", description="Benchmarks of the search for pages.")
    commands = parser.add_subparsers(dest="command", required=True)
    measured = commands.add_parser("engine")
    measured.add_argument("--pages", type=int, default=1000)
    measured.add_argument("--questions", type=int, default=100)
    measured.add_argument("--sides", nargs="+", choices=sorted(engine.SIDES), default=["pooled"])
    measured.add_argument("--ef", type=int, default=None)
    measured.add_argument("--candidates", type=int, nargs="+", default=[50], help="of the index, one run for each")
    measured.add_argument("--budget", type=int, nargs="+", default=[16], help="MiB of vectors that order them")
    measured.add_argument("--keep", default="", help="name under which what was stored stays for the next run")
    measured.add_argument("--data", type=Path, help="Weaviate's data, whose bytes are measured")
    measured.add_argument("--watch", type=int, help="process id of Weaviate, whose memory is measured")
    asked = commands.add_parser("questions")
    asked.add_argument("--seed", type=int, default=1)
    many = commands.add_parser("seeds")
    many.add_argument("--seeds", type=int, nargs="+", default=[2, 3, 4, 5, 6, 7])
    many.add_argument("--out", type=Path, help="file for the JSON (printed in any case)")
    for one in (measured, asked):
        one.add_argument("--weaviate", default=os.environ.get("JERVIS_TEST_WEAVIATE_URL", _WEAVIATE))
        one.add_argument("--grpc", type=int, default=int(os.environ.get("JERVIS_TEST_WEAVIATE_GRPC_PORT", "50051")))
        one.add_argument("--mongodb", default=os.environ.get("JERVIS_TEST_MONGODB_URI", ""))
        one.add_argument("--out", type=Path, help="file for the JSON (printed in any case)")
    options = parser.parse_args(arguments)
    run = {"engine": engine.run, "questions": questions.run, "seeds": seeds.run}[options.command]
    found = asyncio.run(run(options))
    said = json.dumps(found, indent=2)
    sys.stdout.write(f"{said}\n")
    if options.out is not None:
        options.out.write_text(said + "\n", encoding="utf-8")
    return 1 if found.get("problemCount") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
