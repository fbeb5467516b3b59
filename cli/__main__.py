"""`kubectl-jervis`, `python -m cli`: the commands put together, errors turned into sentences and exit statuses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated

import typer

from cli import codes, options
from cli.commands import (
    answer,
    artifacts,
    ask,
    backends,
    connections,
    decide,
    delete,
    erase,
    get,
    history,
    logs,
    meeting,
    models,
    prioritize,
    queue,
    result,
    retry,
    submit,
    suspend,
    tell,
    trace,
)
from crds import errors
from text import printable

_COMMANDS = {
    "queue": queue.run,
    "get": get.run,
    "result": result.run,
    "artifacts": artifacts.run,
    "trace": trace.run,
    "logs": logs.run,
    "answer": answer.run,
    "approve": decide.approve,
    "reject": decide.reject,
    "retry": retry.run,
    "prioritize": prioritize.run,
    "suspend": suspend.suspend,
    "resume": suspend.resume,
    "delete": delete.run,
    "tell": tell.run,
    "ask": ask.run,
    "submit": submit.run,
    "history": history.run,
    "backends": backends.run,
    "models": models.run,
    "connections": connections.run,
    "meetings": meeting.listed,
    "pause": connections.pause,
    "resync": connections.resync,
    "erase": erase.run,
}


def application() -> typer.Typer:
    """All commands; nothing is read or asked before one of them runs."""
    app = typer.Typer(
        name="kubectl-jervis",
        help="Tasks of Jervis: what waits, what happened, what they ask.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, run in _COMMANDS.items():
        app.command(name)(run)
    app.add_typer(meeting.commands, name="meeting")
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status (see `cli.codes`)."""
    try:
        # Usage errors, --help, interrupts and typer.Exit end in SystemExit with their own status.
        application()(args=arguments, prog_name="kubectl-jervis")
    except errors.JervisError as error:
        sys.stderr.write(sentence(error))
        return codes.of(error)
    return 0


def sentence(error: errors.JervisError) -> str:
    """What went wrong, where, and what helps: one line each."""
    lines = [f"Error: {error.message}"]
    if isinstance(error, errors.Permanent):
        lines += [f"  field: {error.field}"] if error.field else []
        lines += [f"  remedy: {error.remedy}"] if error.remedy else []
    elif isinstance(error, errors.Operational):
        wait = "later" if error.retry_after is None else f"in {error.retry_after:g} s"
        lines.append(f"  remedy: Nothing is wrong with the command; try it again {wait}.")
    return printable.text("\n".join(lines)) + "\n"


def _version(wanted: bool) -> None:
    if wanted:
        try:
            said = metadata.version("jervis")
        except metadata.PackageNotFoundError:
            said = "not installed: run from a checkout"
        sys.stdout.write(said + "\n")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
    namespace: options.Namespace = None,
    request_timeout: options.RequestTimeout = None,
) -> None:
    """Tasks of Jervis: what waits, what happened, what they ask."""


if __name__ == "__main__":
    sys.exit(main())
