"""`jervis-kb`, `python -m cli.knowledge`: the commands put together."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import httpx
import pydantic
import typer
from rich import console, progress, table

from cli import __main__ as tasks
from cli import codes, errors, printable, services
from cli.knowledge import erase, folder, ingest
from cli.output import Format, Output
from crds import errors as root
from crds import priority, scope
from kb import client, wire, writing

_Answer = TypeVar("_Answer")
_SECONDS = 300.0

Url = Annotated[str, typer.Option(envvar="JERVIS_KB_URL", help="URL of the knowledge base.")]
Token = services.KbToken
Client = Annotated[str, typer.Option("--client", help='Client that owns the data; "" for global knowledge.')]
Project = Annotated[str, typer.Option("--project", help="Project of the client that owns the data.")]
Group = Annotated[str, typer.Option("--group", help="Group that owns the data.")]
_URL = "http://127.0.0.1:8080"


def add(
    path: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder whose files are ingested; hidden files are left out.")
    ],
    owner: Client,
    project: Project = "",
    group: Group = "",
    kind: Annotated[str, typer.Option(help="Kind that the documents get.")] = "document",
    parallel: Annotated[int, typer.Option(min=1, max=32, help="Number of files sent at the same time.")] = 4,
    max_bytes: Annotated[int, typer.Option(min=1, help="Leave out files with more bytes.")] = 16 << 20,
    url: Url = _URL,
    token: Token = "",
) -> None:
    """Make the files of a folder known; what was known of them before is replaced."""
    where = _scope(owner, project, group)
    files, skipped = folder.files(path, max_bytes=max_bytes)
    screen = console.Console(stderr=True, highlight=False, markup=False, emoji=False)
    with progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        console=screen,
        disable=not screen.is_terminal,
    ) as bar:
        task = bar.add_task("files", total=len(files))

        async def send(door: client.Client) -> ingest.Result:
            return await ingest.run(
                door, where, files, kind=kind, parallel=parallel, done=lambda file: bar.advance(task)
            )

        result = _through(url, token, send)
    result.skipped = {skip.relative_to(path).as_posix(): why for skip, why in skipped}
    for title, reason in {**result.skipped, **result.failed}.items():
        sys.stderr.write(printable.text(f"{title}: {reason}") + "\n")
    known = f"{len(result.new)} new, {len(result.replaced)} replaced"
    sys.stdout.write(f"{known}, {len(result.skipped)} left out, {len(result.failed)} failed\n")
    if result.failed:
        raise typer.Exit(codes.LATER if result.away else codes.REFUSED)


def ask(
    question: Annotated[str, typer.Argument(help="The question, as a sentence.")],
    owner: Client,
    project: Project = "",
    group: Group = "",
    kinds: Annotated[
        list[str] | None, typer.Option("--kind", help="Only documents of this kind; may be repeated.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(help="Answer with what was valid at this time, for example 2026-03-02T09:00:00Z.")
    ] = None,
    results: Annotated[int, typer.Option("--results", "-n", min=1, max=100, help="Largest number of results.")] = 5,
    output: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = Format.TABLE,
    url: Url = _URL,
    token: Token = "",
) -> None:
    """Evidence for a question, best first."""
    given: dict[str, Any] = {"query": question, "max_results": results, "kinds": kinds or None}
    try:
        moment = datetime.fromisoformat(as_of) if as_of else None
        asked = wire.RetrieveRequest(scope=_scope(owner, project, group), as_of=moment, **given)
    except ValueError as error:
        raise errors.Unusable(
            f"The question cannot be asked like this: {_first(error)}.",
            field="QUESTION",
            remedy="Give times as 2026-03-02T09:00:00Z and kinds as words.",
        ) from error
    found = _through(url, token, lambda door: door.retrieve(asked, urgency=priority.Priority.P1))
    Output(output).show(found.model_dump(mode="json", by_alias=True), _drawn(found))


def forget(
    owner: Client,
    by: Annotated[str, typer.Option(help="Name of the person who decided; kept in the record.")],
    project: Project = "",
    group: Group = "",
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until everything is erased.")] = True,
    url: Url = _URL,
    token: Token = "",
) -> None:
    """Forget all that a client, a project or a group owns. Nothing brings it back."""
    where = _scope(owner, project, group)
    if not yes:
        expected = erase.named(where)
        typed = typer.prompt(f"This forgets {erase.about(where)}. Type {expected!r} to go on", err=True)
        if typed != expected:
            raise errors.Unusable(
                f"{typed!r} is not {expected!r}; nothing was erased.", field="--client", remedy="Type the name."
            )

    def tell(one: writing.Erasure) -> None:
        sys.stderr.write(printable.text(erase.sentence(one)) + "\n")

    done = _through(url, token, lambda door: erase.run(door, where, by, wait=wait, told=tell))
    sys.stdout.write(printable.text(erase.sentence(done)) + "\n")


def _drawn(found: wire.RetrieveReply) -> console.RenderableType:
    if not found.items:
        return "Nothing is known about that in this scope."
    drawn = table.Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("CONFIDENCE", "SOURCE", "TITLE", "EVIDENCE"):
        drawn.add_column(heading, overflow="fold")
    for item in found.items:
        said = " ".join((item.provenance.sentence or item.content).split())
        cells = (f"{item.confidence:.2f}", item.provenance.source_urn, item.provenance.title, said)
        drawn.add_row(*(printable.text(cell) for cell in cells))
    return drawn


def _scope(owner: str, project: str, group: str) -> scope.Scope:
    try:
        return scope.Scope(client_id=owner, project_id=project, group_id=group)
    except ValueError as error:
        raise errors.Unusable(
            f"This is no scope: {_first(error)}.", field="--client", remedy="Give identifiers as the objects have them."
        ) from error


def _first(error: ValueError) -> str:
    if isinstance(error, pydantic.ValidationError):
        problem = error.errors(include_url=False, include_input=False)[0]
        return ": ".join([*map(str, problem["loc"]), problem["msg"]])
    return str(error)


def _through(url: str, token: str, work: Callable[[client.Client], Awaitable[_Answer]]) -> _Answer:
    """Open the door, do the work, close it."""

    async def run() -> _Answer:
        async with httpx.AsyncClient(timeout=_SECONDS) as http:
            return await work(client.Client(url, http, token))

    return asyncio.run(run())


def application() -> typer.Typer:
    """All commands; nothing is read or asked before one of them runs."""
    app = typer.Typer(
        name="jervis-kb",
        help="The knowledge base of Jervis: put a folder in, ask a question.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command("ingest")(add)
    app.command("ask")(ask)
    app.command("erase")(forget)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status (see `cli.codes`)."""
    try:
        application()(args=arguments, prog_name="jervis-kb")
    except root.JervisError as error:
        sys.stderr.write(tasks.sentence(error))
        return codes.of(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
