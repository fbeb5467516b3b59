"""`logs`: the log of the current run's pod."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Option

from cli import options, waiting
from cli.session import Session
from crds import labels


@options.streaming
def run(
    session: Session,
    name: options.TaskName,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Wait for the pod, then print the log as it is written.")
    ] = False,
    attempt: Annotated[
        int | None, Option(help="Number of the run whose log is shown. [default: the latest]", min=1)
    ] = None,
    tail: Annotated[int | None, Option(help="Only this number of lines from the end.", min=0)] = None,
) -> None:
    """The log of a task's Job: of the current run, or of the last one.

    Runs are in the release's namespace, and so is the right to read their logs.
    """
    pod = waiting.pod(session, name, attempt, follow=follow)
    sink = sys.stdout.buffer
    meta = pod["metadata"]
    for piece in session.kube.log(meta["namespace"], meta["name"], labels.CONTAINER, follow=follow, tail=tail):
        sink.write(piece)
        sink.flush()
