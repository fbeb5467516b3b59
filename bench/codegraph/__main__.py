"""`python -m bench.codegraph COMMAND`: what codegraph reads out of source code, how fast, and whether edits change it.

    python -m bench.codegraph accuracy                            # trees that its queries were not written with
    python -m bench.codegraph accuracy --trees seen --languages java kotlin --differences /tmp/differences
    python -m bench.codegraph calls java                          # beside javac
    python -m bench.codegraph calls typescript --names zod mobx   # beside TypeScript's type checker
    python -m bench.codegraph speed                               # beside a plain loop over the same grammars
    python -m bench.codegraph hostile                             # files made to stall a parser
    python -m bench.codegraph where                               # ranks for messages of commits, beside plain BM25
    python -m bench.codegraph releases                            # ranks for release notes of libraries, beside it too
    python -m bench.codegraph edits --edits 10000                 # random edits, beside a rebuild
    python -m bench.codegraph edits --edits 100 --seed 17         # a seed that failed, alone

Prints one JSON document; progress goes to stderr. Exit status 1: a target is missed. The references are built once and
kept in the user's cache: minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench import variables
from bench.codegraph import accuracy, calls, edits, hostile, natives, releases, resolution, speed, where


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.codegraph", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("accuracy", help="beside the parsers of the languages")
    one.add_argument("--languages", nargs="+", choices=list(natives.ALL), default=list(natives.ALL))
    one.add_argument("--trees", choices=("seen", "unseen", "all"), default="unseen")
    one.add_argument("--names", nargs="+", default=[], help="of trees; all of them")
    one.add_argument("--files", type=int, default=500, help="of a tree, at most")
    one.add_argument("--differences", type=Path, help="folder for the lines that differ")
    three = commands.add_parser("calls", help="precision and recall of calls")
    three.add_argument("language", choices=("java", "typescript"))
    three.add_argument("--names", nargs="+", default=[], help="of trees; all of them")
    three.add_argument("--files", type=int, default=2000, help="of a tree of Java, at most")
    two = commands.add_parser("speed", help="beside a plain loop in one process")
    two.add_argument("--files", type=int, default=2000)
    commands.add_parser("hostile", help="files made to stall a parser")
    three = commands.add_parser("where", help="ranks for messages of commits, beside plain BM25")
    three.add_argument("--commits", type=int, default=40)
    three.add_argument("--seed", type=int, default=129)
    three.add_argument("--until", default="HEAD", help="the last commit of the history")
    five = commands.add_parser("releases", help="ranks for release notes of libraries, beside plain BM25")
    five.add_argument("--names", nargs="+", choices=[one.name for one in releases.ALL], default=[], metavar="NAME",
                      help="of libraries; all of them: %(choices)s")  # fmt: skip
    four = commands.add_parser("edits", help="random edits, beside a rebuild")
    four.add_argument("--edits", type=int, default=1000, help="in all (%(default)s)")
    four.add_argument("--each", type=int, default=100, help="of one seed (%(default)s)")
    four.add_argument("--seed", type=int, default=1, help="the first one (%(default)s)")
    four.add_argument("--kills", type=float, default=0.1, help="chance that a commit breaks off (%(default)s)")
    four.add_argument("--compares", type=float, default=0.1, help="chance of a comparison after one (%(default)s)")
    four.add_argument("--mongodb", help="without it JERVIS_TEST_MONGODB_URI")
    return parser


def main() -> int:
    """Prints one JSON document."""
    given = _parser().parse_args()
    found: dict[str, Any]
    if given.command == "accuracy":
        which = {True: given.trees != "unseen", False: given.trees != "seen"}
        found = accuracy.measure(given.languages, which, given.files, given.differences, given.names)
        missed = any(one.get("missed") for one in found.values())
    elif given.command == "calls":
        if given.language == "java":
            found = calls.measure(given.names, given.files)
            missed = any(min(one["precision"] or 0, one["recall"] or 0) < calls.TARGET for one in found.values())
        else:
            found = resolution.measure(given.names)
            missed = any(one["missed"] for one in found.values())
    elif given.command == "speed":
        found = speed.measure(given.files)
        missed = bool(found["missed"])
    elif given.command == "where":
        found = where.measure(given.commits, given.seed, given.until)
        missed = bool(found["missed"])
    elif given.command == "releases":
        found = where.releases(given.names)
        missed = bool(found["missed"])
    elif given.command == "edits":
        each = {"kills": given.kills, "compares": given.compares}
        uri = given.mongodb or variables.required("JERVIS_TEST_MONGODB_URI")
        found = edits.measure(uri, given.edits, given.each, given.seed, **each)
        missed = bool(found["missed"])
    else:
        found = hostile.measure()
        missed = bool(found["missed"])
    print(json.dumps(found, indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
