"""`ask`: a question as a task, and its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer
from typer import Argument, Option

from cli import archive, document, errors, options, order, permitting, reading, waiting
from cli.commands import submit
from cli.session import Session
from cli.views import result, story
from crds import phases
from crds.pendingtask import Type

_TITLE_CHARS = 80


@options.acting
def run(
    session: Session,
    question: Annotated[str, Argument(metavar="QUESTION", help="The question; `-` reads it from standard input.")],
    client: submit.Client,
    project: submit.Project = "",
    group: submit.Group = "",
    name: Annotated[str, Option(help="Name of the task. [default: a new one]")] = "",
    conversation: Annotated[
        str, Option(help="A name that earlier questions had, too: the run knows what was said. [default: none]")
    ] = "",
    time_zone: submit.TimeZone = "",
    permit: permitting.Permitted = None,
    propose: permitting.Propose = False,
    confirmed: permitting.Confirmed = False,
    model: permitting.Model = "",
    router: permitting.Router = "",
    router_token: permitting.RouterToken = "",
    wait: submit.Wait = False,
    timeout: submit.Seconds = 600.0,
) -> None:
    """Ask a question. With --wait the whole answer and its sources are printed."""
    submit.one_of(session, wait=wait)
    words = submit.read("-").decode("utf-8", "replace") if question == "-" else question
    flags = permitting.Flags(permit or (), propose, confirmed, model, router, router_token)
    wishes = document.Wishes(
        client,
        project,
        group,
        Type.USER_INPUT,
        name=name or f"ask-{session.identity()}",
        title=_title(words),
        conversation=conversation,
        time_zone=time_zone,
        permits=permitting.given(flags),
    )
    draft = document.draft("-", words.encode(), wishes)
    if draft.stored:
        raise errors.Unusable(
            "The question is too long for an object.", field="QUESTION", remedy="Use: kubectl jervis submit FILE"
        )
    if propose:
        permits = permitting.confirmed(session, flags, words)
        draft = document.draft("-", words.encode(), replace(wishes, permits=permits))
    raw = session.kube.create(draft.manifest(None))
    if not wait:
        submit.created(session, raw)
        return
    raw = submit.waited(session, raw, timeout)
    _answered(session, raw)
    raise typer.Exit(waiting.code(raw))


def _title(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= _TITLE_CHARS else f"{line[: _TITLE_CHARS - 1]}…"


def _answered(session: Session, raw: reading.Object) -> None:
    """The stored answer of a task that has ended; its story where there is none, or where it asks a person."""
    task = reading.task(raw)
    if order.phase(task) in phases.TERMINAL:
        try:
            found = archive.result(archive.Client(session.kube), task.metadata.uid)
        except errors.NotFound:
            pass
        else:
            session.output.show(found, result.draw(found["result"]))
            return
    session.output.show(raw, story.draw(task, session.now()))
