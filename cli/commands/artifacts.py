"""`artifacts`: what the result of a task has beside its answer."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Annotated

from rich import console, text
from typer import Option

from cli import archive, errors, options, output
from cli.commands import result
from cli.reading import Object
from cli.session import Session
from cli.views import table
from text import printable


@options.streaming
def run(
    session: Session,
    name: options.TaskName,
    get: Annotated[str, Option("--get", metavar="KEY", help="Print this content instead of the list.")] = "",
    target: Annotated[
        str,
        Option(
            "--output",
            "-o",
            metavar="FILE|FORMAT",
            help="With --get the file to write it to. [default: standard output] Otherwise table, json or yaml.",
        ),
    ] = "",
) -> None:
    """Artifacts and changed files of a task's result; --get writes one of them to a file."""
    api = archive.Client(session.kube)
    uid, phase = result.identity(session, api, name)
    try:
        if get:
            _write(base64.b64decode(archive.content(api, uid, get)["data"]), target)
            return
        found = archive.artifacts(api, uid)
    except errors.NotFound as error:
        if get:
            raise errors.NotFound(
                f"The result of PendingTask {name!r} has no stored content {get!r}.",
                field="--get",
                remedy=f"List what it has: kubectl jervis artifacts {name}",
            ) from error
        raise result.missing(name, phase) from error
    output.Output(_format(target)).show(found, _draw(found))


def _write(raw: bytes, target: str) -> None:
    if target not in ("", "-"):
        try:
            Path(target).write_bytes(raw)
        except OSError as error:
            remedy = "Name another file."
            raise errors.Unusable(f"{target} cannot be written: {error}", field="--output", remedy=remedy) from error
    elif sys.stdout.isatty():
        # Without what steers a terminal; into a file or a pipe as it is.
        sys.stdout.write(printable.text(raw.decode(errors="replace")))
    else:
        sys.stdout.buffer.write(raw)


def _format(target: str) -> output.Format:
    try:
        return output.Format(target or output.Format.TABLE)
    except ValueError as error:
        raise errors.Unusable(
            f"{target!r} is no output format.",
            field="--output",
            remedy="Give table, json or yaml; a file goes with --get KEY.",
        ) from error


def _draw(found: Object) -> console.RenderableType:
    made, changed = found["artifacts"], found["changedFiles"]
    rows = [(_size(one.get("bytes")), str(one.get("delegation", "")), str(one["key"])) for one in made]
    parts: list[console.RenderableType] = []
    if rows:
        parts.append(table.plain(("BYTES", "MADE BY", "KEY"), rows))
    if changed:
        parts += [text.Text("\nChanged files" if rows else "Changed files", "bold")]
        parts += [text.Text(f"  {printable.line(str(path))}") for path in changed]
    return console.Group(*parts) if parts else text.Text("The result has no artifacts and no changed files.")


def _size(count: int | None) -> str:
    return "" if count is None else str(count)
