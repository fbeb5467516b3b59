"""The flags that every command shares, spelt as kubectl spells them."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

from typer import Argument, Context, Option

from cli import bulk, session
from cli.output import Format, Output
from cli.reading import Object
from crds.errors import JervisError

if TYPE_CHECKING:
    from cli.kube import Kube

P = ParamSpec("P")
_COMPLETIONS = 200
"""More names than that are no help to the hand that types."""


def _names(ctx: Context, incomplete: str, listed: Callable[[Kube], Iterable[Object]]) -> list[str]:
    """Those of what is listed that begin so."""
    try:
        names = ("kubeconfig", "context", "namespace")
        kubeconfig, context, namespace = (_access(ctx, name, ctx.params.get(name)) for name in names)
        opened = session.connect(kubeconfig, context, namespace, 2.0, Format.TABLE)
        with contextlib.closing(opened.kube):
            named = (str(raw["metadata"]["name"]) for raw in listed(opened.kube))
            fitting = (name for name in named if name.startswith(incomplete))
            return list(itertools.islice(fitting, _COMPLETIONS))
    except JervisError:
        # A shell that completes has nowhere to show an error; the command itself will.
        return []


def _complete_task(ctx: Context, incomplete: str) -> list[str]:
    """Names of tasks for the shell."""
    return _names(ctx, incomplete, lambda kube: kube.metadata())


def complete_connection(ctx: Context, incomplete: str) -> list[str]:
    """Names of Connections for the shell."""
    return _names(ctx, incomplete, lambda kube: kube.connections())


TaskName = Annotated[str, Argument(metavar="NAME", help="Name of the PendingTask.", autocompletion=_complete_task)]

TaskNames = Annotated[
    list[str] | None,
    Argument(metavar="[NAME]...", help="Names of PendingTasks.", autocompletion=_complete_task),
]

_CLUSTER = "Cluster"
_MANY = "Many tasks"
_SELECTION: dict[str, tuple[Any, Any]] = {
    "selector": (
        Annotated[
            str, Option("--selector", "-l", help="Label selector, for example team=storage.", rich_help_panel=_MANY)
        ],
        "",
    ),
    "field_selector": (
        Annotated[str, Option(help="Field selector, for example spec.type=EmailProcessing.", rich_help_panel=_MANY)],
        "",
    ),
    "client": (Annotated[str, Option(help="All tasks of this client (spec.clientId).", rich_help_panel=_MANY)], ""),
    "everything": (Annotated[bool, Option("--all", help="All tasks of the namespace.", rich_help_panel=_MANY)], False),
    "yes": (
        Annotated[bool, Option("--yes", "-y", help="Skip the confirmation prompt.", rich_help_panel=_MANY)],
        False,
    ),
    "parallel": (
        Annotated[int, Option(min=1, max=32, help="Number of tasks changed at the same time.", rich_help_panel=_MANY)],
        8,
    ),
}
_SECONDS = 30.0
Kubeconfig = Annotated[
    str | None,
    Option(help="Path of the kubeconfig file. [default: $KUBECONFIG, ~/.kube/config]", rich_help_panel=_CLUSTER),
]
KubeContext = Annotated[
    str | None,
    Option("--context", help="Context of the kubeconfig. [default: its current one]", rich_help_panel=_CLUSTER),
]
Namespace = Annotated[
    str | None,
    Option("--namespace", "-n", help="Namespace of the tasks. [default: the context's]", rich_help_panel=_CLUSTER),
]
RequestTimeout = Annotated[
    float | None,
    Option(help=f"Seconds that one request may take. [default: {_SECONDS:g}]", min=0.1, rich_help_panel=_CLUSTER),
]
_ACCESS: dict[str, tuple[Any, Any]] = {
    "kubeconfig": (Kubeconfig, None),
    "context": (KubeContext, None),
    "namespace": (Namespace, None),
    "request_timeout": (RequestTimeout, None),
}
"""They stand before the command as well as behind it."""
_OUTPUT = {"output": (Annotated[Format, Option("--output", "-o", help="Output format.")], Format.TABLE)}
_TRIAL = {
    "dry_run": (
        Annotated[bool, Option("--dry-run", help="Only have the apiserver check the change; nothing is written.")],
        False,
    )
}


def connected(run: Callable[Concatenate[session.Session, P], None]) -> Callable[..., None]:
    """Give `run` the flags of the cluster and `-o`; it is called with a session built from them."""
    return _extended(run, {**_OUTPUT, **_ACCESS})


def acting(run: Callable[Concatenate[session.Session, P], None]) -> Callable[..., None]:
    """The same for a command that changes a task: with `--dry-run`."""
    return _extended(run, {**_TRIAL, **_OUTPUT, **_ACCESS})


def choosing(run: Callable[Concatenate[session.Session, bulk.Choice, P], None]) -> Callable[..., None]:
    """The same for a verb on one task or on many: names and selectors come as a `bulk.Choice`."""

    wanted: Callable[..., None] = run

    def chosen(
        opened: session.Session,
        names: list[str] | None,
        selector: str,
        field_selector: str,
        client: str,
        everything: bool,
        yes: bool,
        parallel: int,
        **given: Any,
    ) -> None:
        meant = tuple(dict.fromkeys(names or ()))
        wanted(opened, bulk.Choice(meant, selector, field_selector, client, everything, yes, parallel), **given)

    # Name and text of the command are the verb's own.
    functools.update_wrapper(chosen, wanted)
    first, _, *own = inspect.signature(run, eval_str=True).parameters.values()
    named = inspect.Parameter("names", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=TaskNames)
    selecting = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in _SELECTION.items()
    ]
    chosen.__signature__ = inspect.Signature([first, named, *own, *selecting])  # type: ignore[attr-defined]
    return _extended(chosen, {**_TRIAL, **_OUTPUT, **_ACCESS})


def streaming(run: Callable[Concatenate[session.Session, P], None]) -> Callable[..., None]:
    """The same for a command that prints a stream and knows no `-o`."""
    return _extended(run, _ACCESS)


def offline(run: Callable[Concatenate[Callable[[], session.Session], Output, P], None]) -> Callable[..., None]:
    """The same for a command that may need no cluster: it is called with what opens the session, and where to print."""

    @functools.wraps(run)
    def command(ctx: Context, **given: Any) -> None:
        kubeconfig, context, namespace, timeout = (_access(ctx, name, given.pop(name)) for name in _ACCESS)
        printed = given.pop("output")
        with contextlib.ExitStack() as stack:

            def opened() -> session.Session:
                made = session.connect(kubeconfig, context, namespace, timeout or _SECONDS, printed)
                stack.enter_context(contextlib.closing(made.kube))
                return made

            wanted(opened, Output(printed), **given)

    wanted: Callable[..., None] = run
    return _signed(command, list(inspect.signature(run, eval_str=True).parameters.values())[2:], {**_OUTPUT, **_ACCESS})


def _extended(run: Callable[..., None], flags: dict[str, tuple[Any, Any]]) -> Callable[..., None]:
    @functools.wraps(run)
    def command(ctx: Context, **given: Any) -> None:
        kubeconfig, context, namespace, timeout = (_access(ctx, name, given.pop(name)) for name in _ACCESS)
        printed, trial = given.pop("output", Format.TABLE), given.pop("dry_run", False)
        opened = session.connect(kubeconfig, context, namespace, timeout or _SECONDS, printed, dry_run=trial)
        with contextlib.closing(opened.kube):
            run(opened, **given)

    return _signed(command, list(inspect.signature(run, eval_str=True).parameters.values())[1:], flags)


def _signed(
    command: Callable[..., None], own: list[inspect.Parameter], flags: dict[str, tuple[Any, Any]]
) -> Callable[..., None]:
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in flags.items()
    ]
    # Typer reads both, and gives the context by its type; the session is not the command line's.
    ctx = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Context)
    command.__signature__ = inspect.Signature([ctx, *own, *shared])  # type: ignore[attr-defined]  # of every function
    command.__annotations__ = {each.name: each.annotation for each in [ctx, *own, *shared]}
    return command


def _access(ctx: Context, name: str, given: Any) -> Any:
    """The flag behind the command, else the one before it."""
    before = ctx.parent
    while given is None and before is not None:
        given, before = before.params.get(name), before.parent
    return given
