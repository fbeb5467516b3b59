"""`python -m bench.real --model smollm2`: a real model on documents with planted facts, beside the simulation.

    make services-up && eval "$(.venv/bin/python -m hack.cluster env)" && unset KUBECONFIG
    .venv/bin/python -m bench.real --model smollm2                    # a small model of hack.models, served here
    .venv/bin/python -m bench.real --model qwen2.5:7b --url http://gpu-1:11434
    .venv/bin/python -m bench.real --model smollm2 --items 12         # the first twelve of the 100 documents
    .venv/bin/python -m bench.real --model smollm2 --passages         # of Wikipedia, with facts that others found there

Prints one JSON document, of the model and of the simulation: answers that are valid as they were sent, tries, facts
stored of those planted and beside them, tokens and seconds a task. `invented`: no evidence of the fact states it (see
`bench.real.facts`). Exit status 1: an invented fact was stored, or a document could not be ingested.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
import uvloop

from bench.qualify import site, spy
from bench.real import corpus, passes, sent
from hack import ollama
from hack.cluster import errors, progress
from hack.models import catalogue, server, store

_TODAY = datetime(2026, 11, 23, 8, tzinfo=UTC)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.real", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", required=True, help=f"{', '.join(catalogue.ALL)}; with --url a name of that server")
    parser.add_argument("--url", help="an Ollama or a router; without it one is started here")
    parser.add_argument("--items", type=int, default=100, help="documents (%(default)s)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="then no more documents (unbounded)")
    parser.add_argument("--answers", type=argparse.FileType("a", bufsize=1), help="a file for them as they were sent")
    parser.add_argument("--seed", type=int, default=1, help="of the documents (%(default)s)")
    parser.add_argument("--passages", action="store_true", help="texts of others (at most 66) instead of our own")
    parser.add_argument("--alone", action="store_true", help="without the simulation beside it")
    return parser


@contextlib.contextmanager
def _served(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The URL of the model's server, and the model's name there."""
    if options.url:
        yield options.url, options.model
        return
    if options.model not in catalogue.ALL:
        raise SystemExit(f"no model {options.model}: there are {', '.join(catalogue.ALL)}; others need --url")
    model, report = catalogue.ALL[options.model], progress.Progress()
    try:
        program = ollama.program(report)
        folder = store.ensure([model], program, report)
    except errors.Failure as failure:
        raise SystemExit(f"no model: {failure}") from failure
    with (
        tempfile.TemporaryDirectory(prefix="bench-real-") as place,
        server.running(program, folder, Path(place) / "ollama.log") as url,
    ):
        yield url, model.name


async def _run(options: argparse.Namespace, where: site.Services) -> dict[str, Any]:
    own = corpus.documents(options.items, options.seed)
    documents = corpus.passages(options.items) if options.passages else own
    sides = {"model": where}
    if not options.alone:
        sides["simulation"] = dataclasses.replace(where, ollama=None, model=site.MODEL)
    report = progress.Progress()

    def keep(document: corpus.Document, call: spy.Call) -> None:
        if options.answers is not None and call.shape is not None:
            line = {"document": document.urn, "prompt": call.tag, "problem": sent.problem(call), "answer": call.answer}
            options.answers.write(json.dumps(line | {"tokens": call.answer_tokens}, ensure_ascii=False) + "\n")

    found: dict[str, Any] = {"name": where.model, "items": len(documents), "seed": options.seed}
    for name, side in sides.items():
        async with site.opened(side, _TODAY, width=1) as place:
            report.say(f"{name}: {len(documents)} documents")
            found[name] = await passes.run(place, documents, report.say, keep, seconds=60 * options.minutes)
    return found


def main() -> int:
    """Prints one JSON document."""
    options = _parser().parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    services = site.services()
    with _served(options) as (url, model):
        found = uvloop.run(_run(options, dataclasses.replace(services, ollama=url, model=model)))
    sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    return int(bool(found["model"]["facts"]["invented"] or found["model"]["failed"]))


if __name__ == "__main__":
    sys.exit(main())
