"""`python -m bench.connectors histories`: sources change, fail and shift while two replicas read them and are killed.

    python -m bench.connectors histories --histories 50             # all protocols, ours and three references
    python -m bench.connectors histories --seed 1000 --references 0 --protocols Git IMAP --into a.json
    python -m bench.connectors merge a.json b.json --table          # of several runs with other seeds

Prints one JSON document, whose `problems` name each failing history with the command that runs it alone; progress goes
to stderr. Exit status 1: an item differs, a task was made twice or an item was deleted that was there, or a reference
made no mistake at all, so that the histories prove nothing. MongoDB's wire is a server of the run's own, in memory: a
second run beside it takes a second core.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import structlog
import uvloop

from bench.connectors import history, outside, report


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.connectors", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("histories", help="run them")
    run.add_argument("--histories", type=int, default=50, help="of each protocol")
    run.add_argument("--seed", type=int, default=0, help="of the first one; the others follow")
    run.add_argument("--references", type=int, help="histories that the references get too; all of them")
    run.add_argument("--protocols", nargs="+", choices=list(history.PROTOCOLS), default=list(history.PROTOCOLS))
    run.add_argument("--algorithms", nargs="+", choices=history.ALGORITHMS, default=history.ALGORITHMS)
    run.add_argument("--into", type=Path, help="write the JSON document here, too, after every ten of each protocol")
    run.add_argument("--table", action="store_true", help="print a table instead of JSON")
    merge = commands.add_parser("merge", help="add the documents of several runs up")
    merge.add_argument("files", nargs="+", type=Path)
    merge.add_argument("--table", action="store_true", help="print a table instead of JSON")
    return parser


async def _run(options: argparse.Namespace, uri: str) -> dict[str, Any]:
    outcomes: list[history.Outcome] = []
    most = options.histories if options.references is None else options.references
    async with history.database(uri) as database:
        for number in range(options.histories):
            seed = options.seed + number
            for protocol in options.protocols:
                for algorithm in options.algorithms:
                    if algorithm == history.OURS or number < most:
                        outcomes.append(await history.run(protocol, algorithm, seed, database))
            if options.into and number % 10 == 9:
                options.into.write_text(json.dumps(report.document(outcomes), indent=2))
            sys.stderr.write(f"{number + 1} of {options.histories} histories of each protocol\n")
    return report.document(outcomes)


def main() -> int:
    """Prints one JSON document, or a table."""
    options = _parser().parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    if options.command == "merge":
        found = report.merged(json.loads(path.read_text()) for path in options.files)
    else:
        with (
            tempfile.TemporaryDirectory(prefix="histories-") as folder,
            outside.mongodb(Path(folder), memory=True) as uri,
        ):
            found = uvloop.run(_run(options, uri))
    sys.stdout.write((report.table(found) if options.table else json.dumps(found, indent=2)) + "\n")
    return 0 if report.good(found) else 1


if __name__ == "__main__":
    sys.exit(main())
