"""What the sources of a folder declare and import, as JSON: `python -m codegraph extract DIR > out.json`.

    {"files": {"path": [["class|function|method|import", "qualified.name", line], ...]},
     "calls": [["caller file", "caller", "callee file", "callee"], ...],
     "skipped": [["path", "reason", "detail"], ...]}

The line is that of the name, from 1; the name of an import is the module as written. `""` is the caller of a call
outside of all declarations. What a parser of the language calls a declaration is one, so the methods that an interface
of Go lists are in calls alone. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import orjson

from codegraph.extract import budget, pool
from codegraph.parse.facts import FileFacts
from codegraph.resolve import calls
from codegraph.resolve.calls import configuration

_FAILED = 1


def main(arguments: list[str]) -> int:
    """Run one command; the exit code."""
    asked = _parser().parse_args(arguments)
    began = time.monotonic()
    try:
        found = pool.extract_blocking(asked.folder, _budget(asked), calls=True, workers=asked.workers, progress=_show)
    except pool.WorkersError as error:
        _say(f"codegraph: {error}\n")
        return _FAILED
    out = {
        "files": {file.path: _rows(file) for file in found.files},
        "calls": _calls(found, asked),
        "skipped": [[one.path, one.reason, one.detail] for one in found.skipped],
    }
    sys.stdout.buffer.write(orjson.dumps(out) + b"\n")
    broken = sum(file.has_error for file in found.files)
    _say(
        f"\r{len(found.files)} files in {time.monotonic() - began:.2f} s, {broken} of them not understood in full, "
        f"{len(found.skipped)} skipped\n"
    )
    return 0


def _calls(found: pool.Extraction, asked: argparse.Namespace) -> list[list[str]]:
    facts = {file.path: file.calls for file in found.files if isinstance(file.calls, calls.CallFacts)}
    resolved = calls.resolve(facts, configuration.read(asked.folder, _budget(asked).vendored))
    edges = calls.sure(resolved.edges)
    rows = dict.fromkeys((edge.caller_file, edge.caller, edge.callee_file, edge.callee) for edge in edges)
    return [list(row) for row in rows]


def _rows(file: FileFacts) -> list[list[Any]]:
    symbols = (one for one in file.symbols if one.kind == "class" or not one.is_interface)
    rows: list[list[Any]] = [[one.kind, one.qname, one.line] for one in symbols]
    rows += [["import", one.module, one.line] for one in file.imports]
    return rows


def _show(read: int, of: int) -> None:
    if sys.stderr.isatty():
        _say(f"\r{read} of {of} files")


def _say(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


def _budget(asked: argparse.Namespace) -> budget.Budget:
    return budget.Budget(
        files=asked.files,
        file_bytes=asked.file_bytes,
        total_bytes=asked.total_bytes,
        seconds=asked.seconds,
        vendored=frozenset(asked.vendored) if asked.vendored is not None else budget.VENDORED,
        generated=not asked.no_generated,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m codegraph", description="What source code declares and imports.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    extract = commands.add_parser(
        "extract",
        help="read the sources below a folder and print JSON",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = budget.DEFAULT
    extract.add_argument("folder", type=_folder, metavar="DIR", help="the folder")
    extract.add_argument("--files", type=int, default=default.files, help="at most so many files (%(default)s)")
    extract.add_argument("--file-bytes", type=int, default=default.file_bytes, help="size of a file (%(default)s)")
    extract.add_argument("--total-bytes", type=int, default=default.total_bytes, help="of all (%(default)s)")
    extract.add_argument("--seconds", type=float, default=default.seconds, help="time for all (%(default)s)")
    extract.add_argument("--workers", type=int, default=0, help="processes (0: one per processor)")
    extract.add_argument(
        "--vendored",
        nargs="*",
        metavar="NAME",
        help=f"names of folders that are left out ({' '.join(sorted(budget.VENDORED))})",
    )
    extract.add_argument("--no-generated", action="store_true", help="leave out files that say that they are generated")
    return parser


def _folder(written: str) -> Path:
    folder = Path(written)
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{written} is no folder")
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
