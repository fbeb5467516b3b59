"""`python -m bench.schemas [--only TEXT] [--each]` prints one JSON document.

For each schema that can be sent (`tests.schemas.walking`) and each engine: CPU time to compile it, and the time of a
token's mask along an answer (median and worst), beside the schema that it is made of, with all its bounds, references
and patterns. Each is compiled in a process of its own, with 4 GiB of memory and 20 s: `over` says that this was not
enough, `refused` what the engine says. Tokens are those of all-MiniLM-L6-v2 (30,522) and all bytes. `--each` prints
every schema beside the sums.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from tests.fakes.ollama.embedding import session
from tests.schemas import engines, instances, walking

SECONDS, BYTES = 20, 4 << 30


def _tokens() -> tuple[bytes, ...]:
    words = json.loads((session.weights_folder() / "tokenizer.json").read_text())["model"]["vocab"]
    return (*((word[2:] if word.startswith("##") else f" {word}").encode() for word in words), *engines.BYTES)


def _split(text: bytes, numbers: Mapping[bytes, int]) -> Iterator[int]:
    """The longest token at each place."""
    at = 0
    while at < len(text):
        size = next(size for size in range(min(16, len(text) - at), 0, -1) if text[at : at + size] in numbers)
        yield numbers[text[at : at + size]]
        at += size


def _measured(engine: Any, schema: Mapping[str, Any], tokens: Sequence[int]) -> dict[str, Any]:
    start = time.process_time()
    try:
        grammar = engine.compile(schema)
    except engines.Refused as error:
        return {"refused": " ".join(str(error).split())[:160]}
    compiled = time.process_time() - start
    masks = []
    for token in tokens:
        began = time.perf_counter()
        grammar.mask()
        masks.append(1e6 * (time.perf_counter() - began))
        if not grammar.take(token):
            break
    figures = {"compile_ms": 1e3 * compiled, "mask_us_p50": statistics.median(masks), "mask_us_max": max(masks)}
    return {name: round(figure, 2) for name, figure in figures.items()}


def _bounded(engine: Any, schema: Mapping[str, Any], tokens: Sequence[int]) -> dict[str, Any]:
    """The same in a process of its own."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work(pipe: Connection) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        pipe.send(_measured(engine, schema, tokens))

    child = context.Process(target=work, args=(sender,))
    child.start()
    sender.close()
    try:
        answer: dict[str, Any] = receiver.recv()
    except EOFError:
        answer = {"over": f"{SECONDS} s or {BYTES >> 30} GiB"}
    child.join()
    return answer


def _summed(measured: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    taken = [one for one in measured if "compile_ms" in one]
    return {
        "schemas": len(measured),
        "refused": sum("refused" in one for one in measured),
        "over": sum("over" in one for one in measured),
        "compile_ms_p50": round(statistics.median(one["compile_ms"] for one in taken), 2),
        "compile_ms_max": max(one["compile_ms"] for one in taken),
        "over_a_second": sum(one["compile_ms"] > 1000 for one in taken) + sum("over" in one for one in measured),
        "mask_us_p50": round(statistics.median(one["mask_us_p50"] for one in taken), 2),
        "mask_us_max": max(one["mask_us_max"] for one in taken),
    }


def main(arguments: Sequence[str]) -> int:
    """Exit status: 1 where an engine refuses what is sent, or cannot compile it."""
    parser = argparse.ArgumentParser(prog="bench.schemas")
    parser.add_argument("--only", default="", help="schemas with this in their name")
    parser.add_argument("--each", action="store_true", help="print each schema as well")
    given = parser.parse_args(arguments)
    tokens = _tokens()
    numbers = {token: number for number, token in enumerate(tokens)}
    samples = [sample for sample in walking.formats() if given.only in sample.name]
    printed: dict[str, Any] = {"tokens": len(tokens), "engines": {}}
    each: list[dict[str, Any]] = []
    failed = False
    for engine in (engines.Llguidance(tokens), engines.Outlines(tokens)):
        sent: list[dict[str, Any]] = []
        listed: list[dict[str, Any]] = []
        for sample in samples:
            answer = list(_split(instances.written(instances.fitting(sample.schema)), numbers))
            ours = _bounded(engine, sample.schema, answer)
            sent.append(ours)
            row: dict[str, Any] = {"schema": sample.name, "engine": engine.name, "sent": ours}
            if sample.listed is not None:
                # Its masks are those of the beginning: what fits is not known.
                row["listed"] = _bounded(engine, sample.listed, [numbers[b"{"]])
                listed.append(row["listed"])
            each.append(row)
        printed["engines"][engine.name] = {"sent": _summed(sent), "listed": _summed(listed)}
        failed = failed or any("compile_ms" not in one for one in sent)
    if given.each:
        printed["each"] = each
    print(json.dumps(printed, indent=2, ensure_ascii=False))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
