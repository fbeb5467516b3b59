#!/usr/bin/env python3
"""/opt/joern/analyze: the code property graph of a source tree, or the answer to a query about it.

    WORK/source                   the tree
    WORK/.jervis/cpg-export.json  what `codegraph.api.CpgExport` describes
    WORK/.jervis/query.json       instead, with JERVIS_ANALYZE_QUERY_FILE: {state, result, reason, message, languages}
    WORK/.jervis/failure.json     {reason, message} where there is neither; one that is there already is left alone

Each language has a Java process of its own, one after the other, with a bound of memory and of time, so that one
that fails takes no other with it. Exit status 0, whatever became of it; 2 the settings cannot be used.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

PREFIX = "JERVIS_ANALYZE_"
FRONT_ENDS = {
    "c": ("c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx"),
    "java": ("java",),
    "python": ("py",),
}
"""Endings of files by language, of those for which this image has a front end."""
OTHERS = {
    "csharp": ("cs",), "go": ("go",), "javascript": ("js", "jsx", "mjs", "cjs"), "kotlin": ("kt", "kts"),
    "php": ("php",), "ruby": ("rb",), "rust": ("rs",), "scala": ("scala",), "swift": ("swift",),
    "typescript": ("ts", "tsx", "mts", "cts"),
}  # fmt: skip
VENDORED = frozenset({"node_modules", "vendor", "third_party", ".venv", "venv", "site-packages", "target", ".git"})
_OUT_OF_MEMORY = 3
"""Exit status by -XX:+ExitOnOutOfMemoryError."""
_EXPORT_BYTES, _RESULT_BYTES, _SAID_BYTES = 12 << 20, 1 << 20, 800
"""Of the export (a request of the knowledge base has 16 MiB), of a query's result, of what a failed process printed."""
_HEAP = re.compile(r"^[1-9][0-9]{0,5}[kmg]$")
_QUERY = "/*QUERY*/"
_LISTS = ("types", "methods", "calls", "extends", "usesType")


class FailedError(Exception):
    """A Java process came to nothing; `reason` as in the condition CodeAnalyzed."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class Joern:
    """Joern below `home`, each process of it with `heap` of memory, all of them until `deadline` (monotonic)."""

    def __init__(self, home: Path, heap: str, deadline: float) -> None:
        self._home, self._heap, self._deadline = home, heap, deadline

    @property
    def version(self) -> str:
        """Of its jars."""
        names = [one.name for one in (self._home / "lib").glob("joern-cli_3-*.jar")]
        return names[0].removeprefix("joern-cli_3-").removesuffix(".jar") if names else ""

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of its class path in an empty folder. Raises `FailedError`."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise FailedError("DeadlineExceeded", "no time was left for it")
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as said:
            command = [
                "java", f"-Xmx{self._heap}", "-XX:+ExitOnOutOfMemoryError", "-XX:+UseSerialGC", "-Xss16m",
                f"-Djava.io.tmpdir={folder}", f"-Duser.home={folder}", "-cp", f"{self._home}/lib/*", program,
                *arguments,
            ]  # fmt: skip
            process = subprocess.Popen(  # noqa: S603  # the Java of the image
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )
            try:
                status = process.wait(left)
            except subprocess.TimeoutExpired:
                raise FailedError("DeadlineExceeded", f"it was ended after {left:.0f} s") from None
            finally:
                _end(process)
            if status == 0:
                return
            if status in (_OUT_OF_MEMORY, -signal.SIGKILL):
                raise FailedError("OutOfMemory", f"it needs more than {self._heap} of memory")
            said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID_BYTES))
            raise FailedError(
                "JoernFailed", " ".join(said.read().decode(errors="replace").split()) or f"status {status}"
            )


def languages(source: Path) -> Counter[str]:
    """How many files each language has, folders of dependencies left out."""
    known = {ending: name for name, endings in (FRONT_ENDS | OTHERS).items() for ending in endings}
    found: Counter[str] = Counter()
    for _, folders, files in os.walk(source):
        folders[:] = sorted(set(folders) - VENDORED)
        found.update(known.get(name.rpartition(".")[2].lower(), "") for name in files)
    found.pop("", None)
    return found


def export(joern: Joern, source: Path, target: Path) -> None:
    """Write the export of all languages. Raises `FailedError` where none was read."""
    whole: dict[str, Any] = {"version": 1, "joern": joern.version, "languages": [], "missing": [], "truncated": False}
    whole |= {name: [] for name in _LISTS}
    failed: list[FailedError] = []
    for name, files in sorted(languages(source).items(), key=lambda one: (one[1], one[0])):  # the small ones first
        try:
            part = _part(joern, name, source, target.with_name(f"{name}.json"))
        except FailedError as error:
            whole["missing"].append({"language": name, "files": files, "reason": error.reason, "detail": error.message})
            failed.append(error)
            continue
        whole["languages"].append(name)
        _add(whole, part)
    if not whole["languages"]:
        # What a person can change comes first.
        worst = next((one for one in failed if one.reason != "LanguagesMissing"), None)
        if worst is not None:
            raise worst
        raise FailedError(
            "LanguagesMissing", f"no front end for {', '.join(_names(whole['missing'])) or 'any of its files'}"
        )
    _write(target, fitting(whole))


def query(joern: Joern, source: Path, template: str, text: str, work: Path) -> dict[str, Any]:
    """The answers to a query, of one graph for each language."""
    found, answers = languages(source), []
    kept = [name for name in FRONT_ENDS if found[name]]
    try:
        if not kept:
            raise FailedError("LanguagesMissing", f"no front end for {', '.join(sorted(found)) or 'any of its files'}")
        for name in kept:
            graph, answer = work / f"{name}.cpg", work / f"{name}.txt"
            joern.run("jervis.Export", name, str(source), str(work / f"{name}.json"), str(graph))
            script = work / f"{name}.sc"
            script.write_text(template.replace(_QUERY, text), encoding="utf-8")
            try:
                joern.run("io.joern.joerncli.console.ReplBridge", "--script", str(script),
                          "--param", f"graph={graph}", "--param", f"answer={answer}")  # fmt: skip
            except FailedError as error:
                if error.reason == "JoernFailed":
                    raise FailedError("InvalidQuery", error.message) from error
                raise
            if not answer.exists():  # ReplBridge says with status 0 that a script does not compile
                raise FailedError("InvalidQuery", "the query does not compile, or ended the process")
            answers.append((name, answer.read_bytes()))
    except FailedError as error:
        return {"state": "Failed", "result": "", "reason": error.reason, "message": error.message, "languages": kept}
    parts = [text if len(answers) == 1 else b"== " + name.encode() + b" ==\n" + text for name, text in answers]
    result = b"\n".join(parts)[:_RESULT_BYTES].decode(errors="replace")
    return {"state": "Succeeded", "result": result, "reason": "", "message": "", "languages": kept}


def main(environment: dict[str, str]) -> int:
    """Do what the environment asks for; the exit status."""

    def setting(name: str, default: str) -> str:
        return environment.get(PREFIX + name) or default

    heap, seconds = setting("HEAP", "2g"), setting("SECONDS", "900")
    if not _HEAP.match(heap) or not seconds.isdigit():
        print(f"{PREFIX}HEAP is a number with k, m or g, {PREFIX}SECONDS a number of seconds", file=sys.stderr)  # noqa: T201
        return 2
    work, home = Path(setting("WORK", "/workspace")), Path(setting("JOERN", "/opt/joern"))
    answers = work / ".jervis"
    answers.mkdir(parents=True, exist_ok=True)
    failure, asked = answers / "failure.json", setting("QUERY_FILE", "")
    if failure.exists():
        return 0
    joern = Joern(home, heap, time.monotonic() + int(seconds))
    try:
        if asked:
            text = Path(asked).read_text(encoding="utf-8")
            template = (home / "query.sc").read_text(encoding="utf-8")
            _write(answers / "query.json", query(joern, work / "source", template, text, answers))
        else:
            export(joern, work / "source", answers / "cpg-export.json")
    except FailedError as error:
        _write(failure, {"reason": error.reason, "message": error.message})
    except OSError as error:
        _write(failure, {"reason": "JoernFailed", "message": str(error)})
    return 0


def _part(joern: Joern, name: str, source: Path, target: Path) -> dict[str, Any]:
    if name not in FRONT_ENDS:
        raise FailedError("LanguagesMissing", "Joern has no front end for it in this image")
    try:
        joern.run("jervis.Export", name, str(source), str(target))
        found: dict[str, Any] = json.loads(target.read_bytes())
        return found
    except ValueError as error:
        raise FailedError("JoernFailed", f"its export cannot be read: {error}") from error
    finally:
        target.unlink(missing_ok=True)


def _add(whole: dict[str, Any], part: dict[str, Any]) -> None:
    """Take the export of a language in: its indexes count from behind those that are there."""
    of = {"calls": len(whole["methods"]), "extends": len(whole["types"]), "usesType": len(whole["types"])}
    for name in _LISTS:
        by = of.get(name)
        whole[name] += part[name] if by is None else [[one[0] + by, one[1] + by, *one[2:]] for one in part[name]]
    whole["truncated"] = whole["truncated"] or part["truncated"]


def fitting(whole: dict[str, Any]) -> dict[str, Any]:
    """The export within its bound: without signatures, then without the methods that nothing calls, if it must."""
    if _size(whole) > _EXPORT_BYTES:
        whole["truncated"] = True
        whole["methods"] = [one | {"signature": ""} for one in whole["methods"]]
    if _size(whole) > _EXPORT_BYTES:
        used = sorted({index for one in whole["calls"] for index in one[:2]})
        places = {index: place for place, index in enumerate(used)}
        whole["methods"] = [whole["methods"][index] for index in used]
        whole["calls"] = [[places[one[0]], places[one[1]], one[2]] for one in whole["calls"]]
    while _size(whole) > _EXPORT_BYTES:
        half = len(whole["methods"]) // 2
        whole["methods"] = whole["methods"][:half]
        whole["calls"] = [one for one in whole["calls"] if max(one[:2]) < half]
        if not half:
            raise FailedError("JoernFailed", f"the types alone are more than {_EXPORT_BYTES >> 20} MiB")
    return whole


def _size(whole: dict[str, Any]) -> int:
    return len(json.dumps(whole, separators=(",", ":")))


def _names(missing: list[dict[str, Any]]) -> list[str]:
    return [one["language"] for one in missing]


def _write(target: Path, what: dict[str, Any]) -> None:
    """Whole or not at all."""
    part = target.with_suffix(".part")
    part.write_text(json.dumps(what, separators=(",", ":")), encoding="utf-8")
    part.replace(target)


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    sys.exit(main(dict(os.environ)))
