"""`jervis-kb reindex`: how far a new embedding model has come, and the end of the one before."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cli.knowledge import access
from cli.output import Format, Output
from kb import api
from text import printable


def status(
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """How far the new embedding model has come, and what it waits for."""
    found = access.through(url, token, lambda api: api.reindexing.status())
    Output(output).show(
        {"reindexes": [] if found is None else [found.model_dump(mode="json", by_alias=True)]},
        "No embedding model was changed by a reindex." if found is None else sentences(found),
    )


def drop(
    by: Annotated[str, typer.Option(help="Name of the person who decided; kept in the log.")],
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Drop the index of the model before, where the settings keep it (JERVIS_KB_REINDEX_DROP=false)."""
    found = access.through(url, token, lambda api: api.reindexing.drop(by))
    sys.stdout.write(sentences(found) + "\n")


def sentences(of: api.Reindex) -> str:
    """The state of a reindex for people."""
    said = [f"{of.before} -> {of.model}: {of.state}, begun {of.started_at:%Y-%m-%d %H:%M} UTC"]
    if of.switched_at is not None:
        said[0] += f", {of.model} serves since {of.switched_at:%Y-%m-%d %H:%M} UTC"
    if of.state == "Copying" and of.passes:
        said.append(
            f"pass {of.passes}: {of.checked} of {of.chunks} chunks checked, {of.copied} chunks and sentences copied, "
            f"{of.clients_done} of {of.clients} clients done"
        )
    if of.left or of.lost:
        said.append(f"{of.left} documents are being erased, the text of {of.lost} chunks is lost")
    if of.reason:
        said.append(of.reason)
    if of.state == "Done":
        said.append("JERVIS_KB_EMBED_MODEL_BEFORE can be taken out of the settings")
    return "\n".join(printable.text(line) for line in said)


def application() -> typer.Typer:
    """The commands of `jervis-kb reindex`."""
    app = typer.Typer(
        help="A new embedding model: status, drop.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.command("status")(status)
    app.command("drop")(drop)
    return app
