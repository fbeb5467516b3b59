"""`jervis-kb`, `python -m cli.knowledge`: the commands put together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import console, progress, table

from cli import __main__ as tasks
from cli import codes, errors
from cli.knowledge import access, answer, code, documents, erase, folder, ingest, registry, reindex
from cli.output import Format, Output
from cli.views import table as views
from crds import errors as root
from crds import priority, scope
from kb import api, client
from text import printable


def add(
    path: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder whose files are ingested; hidden files are left out.")
    ],
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    kind: Annotated[str, typer.Option(help="Kind that the documents get.")] = "document",
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            "--metadata", metavar="KEY=VALUE", help="Metadata that every document gets, to narrow by; may be repeated."
        ),
    ] = None,
    parallel: Annotated[int, typer.Option(min=1, max=32, help="Number of files sent at the same time.")] = 4,
    max_bytes: Annotated[int, typer.Option(min=1, help="Leave out files with more bytes.")] = 16 << 20,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Make the files of a folder known; what was known of them before is replaced."""
    where = access.where(owner, project, group)
    said = {key: values[0] if len(values) == 1 else values for key, values in _metadata(metadata or []).items()}
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

        async def send(kb: client.Client) -> ingest.Result:
            return await ingest.run(
                kb, where, files, kind=kind, parallel=parallel, done=lambda file: bar.advance(task), metadata=said
            )

        result = access.through(url, token, send, attempts=1)
    result.skipped = {skip.relative_to(path).as_posix(): why for skip, why in skipped}
    for title, reason in {**result.skipped, **result.failed}.items():
        sys.stderr.write(printable.text(f"{title}: {reason}") + "\n")
    known = f"{len(result.new)} new, {len(result.replaced)} replaced"
    sys.stdout.write(f"{known}, {len(result.skipped)} left out, {len(result.failed)} failed\n")
    if result.failed:
        raise typer.Exit(codes.LATER if result.away else codes.REFUSED)


def ask(
    question: Annotated[str, typer.Argument(help="The question, as a sentence.")],
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    kinds: Annotated[
        list[str] | None, typer.Option("--kind", help="Only documents of this kind; may be repeated.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(help="Answer with what was valid at this time, for example 2026-03-02T09:00:00Z.")
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            "--metadata", metavar="KEY=VALUE", help="Only documents whose metadata has the value; may be repeated."
        ),
    ] = None,
    principals: Annotated[
        list[str] | None,
        typer.Option(
            "--as", metavar="PRINCIPAL", help="Only what the sources show to user:NAME or group:NAME; may be repeated."
        ),
    ] = None,
    results: Annotated[
        int | None, typer.Option("--results", "-n", min=1, max=100, help="Largest number of results. [default: 5]")
    ] = None,
    answered: Annotated[
        bool, typer.Option("--answer", help="Have the decision agent write an answer, and draw its steps.")
    ] = False,
    conversation: Annotated[
        str, typer.Option(help="With --answer: name of a conversation that remembers question and answer.")
    ] = "",
    repository: Annotated[str, typer.Option(help="With --answer: only code of this repository (org/name).")] = "",
    output: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Evidence for a question, best first; with --answer an answer that quotes it."""
    if answered:
        narrowed = [kinds, as_of, metadata, results]
        if any(one is not None for one in narrowed):
            raise errors.Unusable(
                "--kind, --as-of, --metadata and --results narrow evidence, and no answer.",
                field="--answer",
                remedy="Leave them out, or leave --answer out.",
            )
        _answer(question, access.where(owner, project, group), conversation, repository, principals, output, url, token)
        return
    if conversation or repository:
        raise errors.Unusable(
            "--conversation and --repository need --answer.", field="--answer", remedy="Add --answer."
        )
    given: dict[str, Any] = {
        "query": question,
        "max_results": 5 if results is None else results,
        "kinds": kinds or None,
    }
    given["metadata"] = _metadata(metadata or []) or None
    try:
        moment = datetime.fromisoformat(as_of) if as_of else None
        asked = api.RetrieveRequest(scope=access.where(owner, project, group), as_of=moment, **given)
    except ValueError as error:
        raise errors.Unusable(
            f"The question cannot be asked like this: {access.first(error)}.",
            field="QUESTION",
            remedy="Give times as 2026-03-02T09:00:00Z and kinds as words.",
        ) from error
    found = access.through(
        url, token, lambda api: api.retrieve(asked, urgency=priority.Priority.P1), principals=principals or ()
    )
    Output(output).show(found.model_dump(mode="json", by_alias=True), _drawn(found))


def _answer(
    question: str,
    where: scope.Scope,
    conversation: str,
    repository: str,
    principals: Sequence[str] | None,
    output: Format,
    url: str,
    token: str,
) -> None:
    try:
        asked = api.AgenticSearch(scope=where, query=question, conversation=conversation or None, repository=repository)
    except ValueError as error:
        raise errors.Unusable(
            f"The question cannot be asked like this: {access.first(error)}.",
            field="QUESTION",
            remedy="Name a conversation by letters, digits, _ and -.",
        ) from error
    status = access.through(
        url,
        token,
        lambda kb: answer.run(kb, asked, lines=output is not Format.TABLE),
        principals=principals or (),
    )
    if status:
        raise typer.Exit(status)


def forget(
    owner: access.Client,
    by: Annotated[str, typer.Option(help="Name of the person who decided; kept in the record.")],
    project: access.Project = "",
    group: access.Group = "",
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until everything is erased.")] = True,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Forget all that a client, a project or a group owns. Nothing brings it back."""
    where = access.where(owner, project, group)
    if not yes:
        expected = erase.named(where)
        typed = typer.prompt(f"This forgets {erase.about(where)}. Type {expected!r} to go on", err=True)
        if typed != expected:
            raise errors.Unusable(
                f"{typed!r} is not {expected!r}; nothing was erased.", field="--client", remedy="Type the name."
            )

    def show(one: api.Erasure) -> None:
        sys.stderr.write(printable.text(erase.sentence(one)) + "\n")

    done = access.through(url, token, lambda api: erase.run(api, where, by, wait=wait, report=show))
    sys.stdout.write(printable.text(erase.sentence(done)) + "\n")


def places(
    lost: Annotated[str, typer.Option("--forget", metavar="ID", help="Place whose files are gone for good.")] = "",
    by: Annotated[str, typer.Option(help="With --forget: name of the person who decided; kept in the log.")] = "",
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """The processes and files that can hold text, for which erasures wait."""
    if lost and not by:
        raise errors.Unusable(
            "It is not said who decided that the files are gone.", field="--by", remedy="Give --by NAME."
        )
    found = access.through(url, token, lambda api: api.erasing.forget_place(lost, by) if lost else api.erasing.places())
    rows: list[views.Row] = [(one.id, one.kind, one.name, f"{one.seen_at:%Y-%m-%d %H:%M:%S}") for one in found]
    Output(output).show(
        {"places": [one.model_dump(mode="json", by_alias=True) for one in found]},
        views.plain(("ID", "KIND", "NAME", "LAST SEEN (UTC)"), rows),
    )


def _metadata(given: list[str]) -> dict[str, list[str]]:
    """Values by key: of one key any of them is enough."""
    wanted: dict[str, list[str]] = {}
    for one in given:
        key, separator, value = one.partition("=")
        if not key or not separator:
            raise errors.Unusable(
                f"{one!r} is not KEY=VALUE.", field="--metadata", remedy="Give it as in --metadata team=core."
            )
        wanted.setdefault(key, []).append(value)
    return wanted


def _drawn(found: api.RetrieveReply) -> console.RenderableType:
    if not found.items:
        return "Nothing is known about that in this scope."
    drawn = table.Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("CONFIDENCE", "SOURCE", "TITLE", "EVIDENCE"):
        drawn.add_column(heading, overflow="fold")
    for item in found.items:
        said = " ".join((item.provenance.sentence or item.content).split()) + _ended(item.provenance)
        cells = (f"{item.confidence:.2f}", item.provenance.source_urn, item.provenance.title, said)
        drawn.add_row(*(printable.text(cell) for cell in cells))
    if found.sufficient:
        return drawn
    return console.Group(drawn, f"This may not answer the question: it covers {found.coverage:.0%} of its words.")


def _ended(of: api.Provenance) -> str:
    """What a reader has to know of a fact, or a version of a document, that something newer took the place of."""
    if of.retired_at is not None:
        return f" (since {of.retired_at:%Y-%m-%d} it is {of.superseded_by})"
    return f" (replaced {of.valid_until:%Y-%m-%d})" if of.valid_until is not None else ""


def regroup(
    owner: Annotated[str, typer.Option("--client", help="Client of the project.")],
    project: Annotated[str, typer.Option("--project", help="Project that moves.")],
    group: Annotated[str, typer.Option("--group", help="Group that it is in from now on; empty: in none.")] = "",
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Take all that is known of a project into its group. The operator does so when a newer task names another one."""
    where = access.where(owner, project, group)
    moved = access.through(url, token, lambda api: api.projects.regroup(where))
    sys.stdout.write(f"{moved.documents} documents moved, {moved.vectors} chunks and sentences with them\n")


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
    app.add_typer(code.application(), name="code")
    app.command("erase")(forget)
    app.command("places")(places)
    app.command("retry")(documents.retry)
    app.add_typer(documents.application(), name="documents")
    app.add_typer(documents.waiting(), name="queue")
    app.add_typer(registry.rules(), name="rules")
    app.add_typer(registry.procedures(), name="procedures")
    app.add_typer(registry.aliases(), name="aliases")
    app.add_typer(registry.types(), name="types")
    app.add_typer(registry.links(), name="links")
    app.command("regroup")(regroup)
    app.add_typer(reindex.application(), name="reindex")
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
