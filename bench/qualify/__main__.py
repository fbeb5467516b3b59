"""`python -m bench.qualify [load]`: the set of examples/qualify through the knowledge base and the operator's route.

    eval "$(python -m hack.cluster env)"
    python -m bench.qualify                          # each item once: confusion table, costs, times
    python -m bench.qualify --table                  # the confusion table as text
    python -m bench.qualify load                     # 1,000 varied items, ten at once, with faults of the models
    python -m bench.qualify load --beside ../other   # the knowledge base of another checkout as well
    python -m bench.qualify load --fast MODEL        # once more, with this model as models.fast

Stores and knowledge base are real; the simulator answers, or, where JERVIS_TEST_OLLAMA_URL is set, the model
JERVIS_TEST_OLLAMA_MODEL (default qwen2.5:7b) of that server. Prints one JSON document. Exit status 1: a route is wrong
(not with a real model), an item did not end, or something was done twice.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import structlog
import uvloop

from bench.qualify import items, load, passes, report, site


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.qualify", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", nargs="?", choices=["set", "load"], default="set")
    parser.add_argument("--table", action="store_true", help="print the confusion table instead of JSON")
    parser.add_argument("--only", default="", help="items whose name begins so, such as mail/cs")
    parser.add_argument("--at-once", type=int, help="items at once (1; load: 10)")
    parser.add_argument("--items", type=int, default=1000, help="how many, for load")
    parser.add_argument("--seed", type=int, default=1, help="of the faults and the order, for load")
    parser.add_argument("--no-faults", action="store_true", help="load without faults")
    parser.add_argument("--beside", type=Path, help="path of another checkout, measured in the same run")
    parser.add_argument("--fast", default="", help="measured once more with this model as models.fast")
    return parser


async def _set(options: argparse.Namespace, where: site.Services, root: Path, fast: str) -> list[passes.Outcome]:
    shared = items.shared()
    todo = [one for one in items.load() if one.id.startswith(options.only)]
    todo = [one for one in todo if where.ollama is None or not one.only_simulated]
    async with site.opened(where, shared.today, root=root, fast_model=fast) as place:
        place.fake.set_script(items.script(todo))
        return await passes.run(place, todo, shared, at_once=options.at_once or 1)


async def _run(options: argparse.Namespace) -> tuple[dict[str, Any], str, bool]:
    where = site.services()
    found: dict[str, Any] = {"model": where.model if where.ollama else "simulator", "command": options.command}
    sides: dict[str, tuple[Path, str]] = {"here": (site.ROOT, "")}
    if options.beside:
        sides["beside"] = (options.beside, "")
    if options.fast:
        sides["fast"] = (site.ROOT, options.fast)
    text, good = "", True
    for name, (root, fast) in sides.items():
        if options.command == "load":
            measured = await load.run(
                where,
                count=options.items,
                at_once=options.at_once or 10,
                seed=options.seed,
                faults=not options.no_faults,
                root=root,
                fast=fast,
            )
            found[name] = measured
            good = good and not measured["problems"]
        else:
            outcomes = await _set(options, where, root, fast)
            found[name] = report.document(outcomes)
            text += f"{name}\n{report.table(outcomes)}\n" if len(sides) > 1 else report.table(outcomes) + "\n"
            good = good and (where.ollama is not None or not found[name]["wrong"])
    return found, text, good


def main() -> int:
    """Prints one JSON document, or a table."""
    options = _parser().parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    found, text, good = uvloop.run(_run(options))
    sys.stdout.write(text if options.table and text else json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
