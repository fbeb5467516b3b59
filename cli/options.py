"""The flags that every command shares, spelt as kubectl spells them."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec

from typer import Argument, Context, Option

from cli import session
from cli.output import Format
from crds.errors import JervisError

P = ParamSpec("P")


def _complete_task(ctx: Context, incomplete: str) -> list[str]:
    """Names of tasks for the shell."""
    given = ctx.params
    try:
        opened = session.connect(
            given.get("kubeconfig"), given.get("context"), given.get("namespace"), 2.0, Format.TABLE
        )
        with contextlib.closing(opened.kube):
            names = [raw["metadata"]["name"] for raw in opened.kube.tasks()]
    except JervisError:
        # A shell that completes has nowhere to show an error; the command itself will.
        return []
    return [name for name in names if name.startswith(incomplete)]


TaskName = Annotated[str, Argument(metavar="NAME", help="Name of the PendingTask.", autocompletion=_complete_task)]

_CLUSTER = "Cluster"
_ACCESS = {
    "kubeconfig": (Annotated[str | None, Option(help="Path of the kubeconfig.", rich_help_panel=_CLUSTER)], None),
    "context": (Annotated[str | None, Option(help="Context of the kubeconfig.", rich_help_panel=_CLUSTER)], None),
    "namespace": (
        Annotated[str | None, Option("--namespace", "-n", help="Else the context's.", rich_help_panel=_CLUSTER)],
        None,
    ),
    "request_timeout": (
        Annotated[float, Option(help="Seconds for one request.", min=0.1, rich_help_panel=_CLUSTER)],
        30.0,
    ),
}
_OUTPUT = {"output": (Annotated[Format, Option("--output", "-o", help="How to print it.")], Format.TABLE)}


def connected(run: Callable[Concatenate[session.Session, P], None]) -> Callable[..., None]:
    """Give `run` the flags of the cluster and `-o`; it is called with a session built from them."""
    return _extended(run, {**_OUTPUT, **_ACCESS})


def streaming(run: Callable[Concatenate[session.Session, P], None]) -> Callable[..., None]:
    """The same for a command that prints a stream and knows no `-o`."""
    return _extended(run, _ACCESS)


def _extended(run: Callable[..., None], flags: dict[str, tuple[Any, Any]]) -> Callable[..., None]:
    @functools.wraps(run)
    def command(**given: Any) -> None:
        opened = session.connect(
            given.pop("kubeconfig"),
            given.pop("context"),
            given.pop("namespace"),
            given.pop("request_timeout"),
            given.pop("output", Format.TABLE),
        )
        with contextlib.closing(opened.kube):
            run(opened, **given)

    own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in flags.items()
    ]
    # Typer reads both; the first parameter is not the command line's.
    command.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]  # of every function
    command.__annotations__ = {each.name: each.annotation for each in [*own, *shared]}
    return command
