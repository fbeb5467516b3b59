"""`jervis-kb documents`, `queue` and `retry`: what is known, what waits for its extraction, and what failed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cli.knowledge import access
from cli.output import Format, Output
from cli.views import table
from kb import api
from text import printable

_Id = Annotated[str, typer.Argument(metavar="ID", help="Id of the document, as a list prints it.")]


def listed(
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    kind: Annotated[str | None, typer.Option(help="Only documents of this kind.")] = None,
    source: Annotated[str | None, typer.Option(help="Only source URNs that begin with this.")] = None,
    versions: Annotated[
        bool, typer.Option("--versions", help="Show also the versions that were replaced, and when each was valid.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Largest number of documents.")] = 100,
    after: Annotated[str | None, typer.Option(help="Go on after the page that printed this.")] = None,
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """The documents that the scope sees, each with its state."""
    where = access.where(owner, project, group)
    found = access.through(
        url,
        token,
        lambda api: api.documents.listed(where, kind=kind, source=source, after=after, limit=limit),
    )
    rows: list[table.Row] = []
    for one in sorted(found.documents, key=lambda one: one.source_urn):
        title, number = printable.line(one.title, 60), str(len(one.versions))
        rows.append((one.source_urn, one.state, str(one.chunks), number, one.kind, title, one.reason))
        for old in one.versions if versions else ():
            rows.append((one.source_urn, "Replaced", "", "", "", printable.line(old.title, 60), _valid(old)))
    shown = Output(output)
    shown.show(
        found.model_dump(mode="json", by_alias=True),
        table.plain(("SOURCE", "STATE", "CHUNKS", "VERSIONS", "KIND", "TITLE", "REASON"), rows),
    )
    if found.next:
        shown.note(f"There are more: --after {found.next}")


def _valid(old: api.DocumentVersion) -> str:
    begun = f"from {old.valid_from:%Y-%m-%d %H:%M:%S} UTC " if old.valid_from is not None else ""
    return f"valid {begun}until {old.valid_until:%Y-%m-%d %H:%M:%S} UTC"


def deleted(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Source URN of the document.")],
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Delete a document and everything that only it says."""
    where = access.where(owner, project, group)
    access.through(url, token, lambda api: api.forget(where, source))
    sys.stdout.write(f"{printable.line(source)} deleted\n")


def queue(
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Largest number of rows.")] = 100,
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """What waits for its extraction, in order, and what failed."""
    where = access.where(owner, project, group)
    found = access.through(url, token, lambda api: api.queue.listed(where, limit=limit))
    rows: list[table.Row] = [
        (
            str(one.place),
            str(one.ahead),
            one.id,
            one.source_urn,
            one.state,
            f"P{one.priority}",
            str(one.attempts),
            one.reason,
        )
        for one in found.jobs
    ]
    rows += [
        ("", "", one.id, one.source_urn, "Failed" if one.retryable else "Refused", "", "", one.reason)
        for one in found.failed
    ]
    shown = Output(output)
    shown.show(
        found.model_dump(mode="json", by_alias=True),
        table.plain(("PLACE", "AHEAD", "ID", "SOURCE", "STATE", "PRIORITY", "ATTEMPTS", "REASON"), rows),
    )
    if found.total > len(found.jobs):
        shown.note(f"{found.total} documents wait; the first {len(found.jobs)} are shown.")


def placed(
    id_: _Id,
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    place: Annotated[int, typer.Option(min=1, max=1_000_000, help="Place in the queue; 1 is the first.")] = 1,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Give a waiting document a place, the first one if no other is named."""
    where = access.where(owner, project, group)
    moved = access.through(url, token, lambda api: api.queue.reorder(where, id_, place))
    sys.stdout.write(f"{printable.line(moved.source_urn)} has place {moved.place}\n")


def retry(
    owner: access.Client,
    id_: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Id of one document; all that failed without it.")
    ] = None,
    project: access.Project = "",
    group: access.Group = "",
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Queue documents that failed once more, as they were sent."""
    where = access.where(owner, project, group)
    done: api.Retried = access.through(url, token, lambda api: api.queue.retry(where, id_))
    rows = [(source, "queued", "") for source in done.retried]
    rows += [(one.source_urn, "failed", one.reason) for one in done.left]
    Output(output).show(
        done.model_dump(mode="json", by_alias=True),
        table.plain(("SOURCE", "STATE", "REASON"), rows) if rows else "No document has failed in this scope.",
    )


def application() -> typer.Typer:
    """`documents`."""
    app = typer.Typer(help="List and delete documents.", no_args_is_help=True)
    app.command("list")(listed)
    app.command("delete")(deleted)
    return app


def waiting() -> typer.Typer:
    """`queue`."""
    app = typer.Typer(help="The extraction queue: list and reorder it.", no_args_is_help=True)
    app.command("list")(queue)
    app.command("place")(placed)
    return app
