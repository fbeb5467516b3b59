"""Files made to stall a parser: each is given up within a second of CPU time and reported, and its neighbours are read.

Beside it the plain parser, which is stopped after some seconds.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

from codegraph.extract import budget, pool
from codegraph.parse import grammars

SECONDS = 1.0
_PLAIN_SECONDS = 20.0
_GOOD = {f"good{number}.py": f"def f{number}():\n    pass\n".encode() for number in range(20)}
_PARSE = """
import sys, tree_sitter
from codegraph.parse import grammars
language = grammars.language_of(sys.argv[1])
tree_sitter.Parser(grammars.load(language)).parse(sys.stdin.buffer.read())
"""


def files(seed: int = 1) -> dict[str, bytes]:
    """Contents by path."""
    chance = random.Random(seed)
    noise = bytes(chance.randrange(1, 256) for _ in range(200_000))
    printable = bytes(chance.randrange(32, 127) for _ in range(200_000))
    deep = {
        "brackets.py": b"(" * 100_000,
        "brackets.json.ts": b"[" * 100_000,
        "braces.rs": b"{" * 100_000,
        "nested.go": b"package p\nfunc f() " + b"{ if x " * 30_000,
        "types.kt": b"val x: " + b"A<" * 50_000,
        "templates.ts": b"`${" * 20_000,
        "templates.tsx": b"<a>{`${" * 10_000,
        "unclosed.java": b"class A { void f() {" * 5_000,
        "comment.rs": b"/*" * 200_000,
    }
    found = {
        "line.js": b"var a=" + b"a+" * 500_000 + b"a",
        "latin.py": "def žluťoučký():\n    pass\n".encode("iso-8859-2"),
        "wide.py": "def f():\n    pass\n".encode("utf-16"),
        "nul.py": b"def f():\n    pass\n\0\0\0",
        "string.py": b'x = "' + b"a" * 900_000 + b'"\ndef f(): pass\n',
    }
    # Not in one line, which is given up for its length.
    found.update((path, _wrapped(content)) for path, content in deep.items())
    for ending in ("ts", "tsx", "js", "py", "go", "java", "kt", "rs"):
        found[f"noise.{ending}"] = noise
        found[f"printable.{ending}"] = _wrapped(printable)
    return found


def _wrapped(content: bytes) -> bytes:
    return b"\n".join(content[at : at + 4_200] for at in range(0, len(content), 4_200))


def one(path: str, content: bytes) -> dict[str, Any]:
    """What came of a file among good ones, and what it cost."""
    before, begun = _cpu(), time.monotonic()
    got = pool.extract_blocking({**_GOOD, path: content}, budget.Budget(seconds=60), workers=1)
    seconds, cpu = time.monotonic() - begun, _cpu() - before
    said = [f"{one.reason}" for one in got.skipped if one.path == path]
    said += ["has_error" if file.has_error else "read" for file in got.files if file.path == path]
    good = sum(file.path in _GOOD and len(file.symbols) == 1 for file in got.files)
    return {"said": said, "good": good, "cpu": cpu, "seconds": seconds}


def plain(path: str, content: bytes) -> float | None:
    """Seconds of a plain parser in a process; None: stopped after 20."""
    begun = time.monotonic()
    try:
        subprocess.run([sys.executable, "-c", _PARSE, path], input=content, timeout=_PLAIN_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None
    return round(time.monotonic() - begun, 2)


def measure() -> dict[str, Any]:
    """A row for each file; CPU seconds beyond those of the good files alone."""
    alone = statistics.median(one("other.py", b"x = 1\n")["cpu"] for _ in range(5))
    rows, missed = {}, []
    for path, content in files().items():
        assert grammars.language_of(path), path
        found = one(path, content)
        found["cpu"] = round(max(0.0, found["cpu"] - alone), 2)
        found["seconds"] = round(found["seconds"], 2)
        rows[path] = {**found, "plain_seconds": plain(path, content)}
        if found["cpu"] > SECONDS or len(found["said"]) != 1 or found["good"] != len(_GOOD):
            missed.append(path)
        print(path, json.dumps(rows[path]), file=sys.stderr, flush=True)
    return {"files": rows, "missed": missed}


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
