"""`models`: has each role a model that can do its work? Of a release, or of a server before anything is installed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from typer import Option

from cli import codes, errors, ollama, options, services, trials
from cli.output import Output
from cli.session import Session
from cli.views import models as view
from cli.views import trials as trialsview
from crds import modelaliases, modelcheck, modelroles

_SECONDS = 10.0


@options.offline
def run(
    opened: Callable[[], Session],
    shown: Output,
    url: Annotated[
        list[str] | None,
        Option(help="URL of an Ollama server to ask itself, without a cluster; may be given several times."),
    ] = None,
    values: Annotated[
        list[Path] | None,
        Option(
            "--values",
            "-f",
            help="File of chart values whose models and aliases are meant, with --url; may be repeated.",
        ),
    ] = None,
    model: Annotated[str, Option(help="With --url: one model for all chat roles, as models.chat.")] = "",
    router: Annotated[
        str, Option(help="URL of the router. [default: through the apiserver]", envvar="JERVIS_ROUTER_URL")
    ] = "",
    router_token: Annotated[
        str, Option(help="Bearer token for the router, if it requires one.", envvar="JERVIS_ROUTER_TOKEN")
    ] = "",
    check: Annotated[
        bool,
        Option("--check", help="Ask each model of the release a few small tasks, by a Job at the lowest priority."),
    ] = False,
) -> None:
    """Models by role on each backend: present, window, tools, thinking, vision, and what stops without them."""
    if check:
        if url or values or model:
            raise errors.Unusable(
                "--check asks the models of a release, and --url, --values and --model are for servers without one.",
                field="--check",
                remedy="Leave the others out.",
            )
        judged(opened(), shown)
        return
    if url:
        report = asked(url, values or (), model)
    elif values or model:
        raise errors.Unusable(
            "--values and --model are for servers that are asked without a release.",
            field="--url",
            remedy="Give --url http://HOST:11434 as well, or leave both out for the models of the release.",
        )
    else:
        report = asyncio.run(of_release(opened(), router, router_token, _SECONDS))
    shown.show(json.loads(report.model_dump_json(by_alias=True)), view.draw(report))
    if report.stops:
        raise typer.Exit(codes.REFUSED)


def judged(session: Session, shown: Output) -> None:
    """Print what each model made of its tasks, as it comes, and the sum by role. Exit status 1 for a role whose model
    is not enough."""
    results = []
    # Closed at once when it is interrupted here, so that the Job is deleted.
    with contextlib.closing(trials.results(session, lambda words: sys.stderr.write(f"{words}\n"))) as given:
        for result in given:
            results.append(result)
            sys.stderr.write(f"{len(results):>3}  {result.verdict.value:<9} {result.role}: {result.task}\n")
    document = {"results": [json.loads(result.model_dump_json(by_alias=True)) for result in results]}
    shown.show(document, trialsview.draw(results))
    if any(line.verdict is not trialsview.Enough.YES for line in trialsview.summed(results)):
        raise typer.Exit(codes.REFUSED)


def asked(urls: list[str], files: Sequence[Path], chat: str) -> modelcheck.Report:
    """What those servers say about the models of these values."""
    chosen: dict[str, Any] = {}
    named: dict[str, str] = {}
    for path in files:
        values = _values(path)
        chosen = _overlaid(chosen, _mapping(values, "models"))
        named |= _mapping(_mapping(values, "router"), "aliases")
    try:
        # A null takes an entry of an earlier file away, as in Helm.
        aliases = modelaliases.Aliases({alias: str(target) for alias, target in named.items() if target is not None})
    except ValueError as error:
        raise errors.Unusable(
            f"router.aliases cannot be used: {error}.", field="--values", remedy="Correct the values."
        ) from error
    roles = modelroles.assigned({**chosen, "chat": chat} if chat else chosen, aliases)
    wanted = [aliases.resolve(role.model) for role in roles]
    return modelcheck.check(roles, [ollama.ask(one, wanted, _SECONDS) for one in urls], aliases, whole=False)


async def of_release(session: Session, url: str, token: str, seconds: float) -> modelcheck.Report:
    """What the router of the release knows. Raises the errors of `router.client`, and `Unusable`."""
    async with services.router(session, url, token, seconds) as client:
        return (await client.status()).models


def _values(path: Path) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise errors.Unusable(
            f"{path} cannot be read: {error}", field="--values", remedy="Give a file of values of the chart."
        ) from error
    return document if isinstance(document, dict) else {}


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key)
    return found if isinstance(found, dict) else {}


def _overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    windows = {**(below.get("numCtx") or {}), **(above.get("numCtx") or {})}
    return {**below, **above, **({"numCtx": windows} if windows else {})}
