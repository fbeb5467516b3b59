"""`jervis-kb code`: questions about the code of a branch, and a folder's code made known without a Connection."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from cli import errors
from cli.knowledge import access
from cli.output import Format, Output
from cli.views import table
from codegraph import api
from contracts.api import message
from crds import scope
from text import printable, source_text

_Reply = TypeVar("_Reply", bound=message.Reply)
_Question = TypeVar("_Question", bound=api.CodeQuestion)
Symbol = Annotated[
    str, typer.Argument(metavar="SYMBOL", help="End of a qualified name, such as Shape.area, or PATH:NAME.")
]
Repository = Annotated[str, typer.Option("--repository", help="ORG/NAME; needed where the scope has several.")]
Branch = Annotated[str, typer.Option("--branch", help="Branch; without it the default one.")]
Limit = Annotated[int, typer.Option(min=1, max=500, help="Rows of a page.")]
After = Annotated[int, typer.Option(min=0, help="Where the page begins: `next` of the page before.")]
_PATH = re.compile("^[^\\x00-\\x1f\\x7f\\ud800-\\udfff]{1,700}$")
"""Paths that are sent: UTF-8 without control characters."""
_CALLS = ("CALLER", "CALLEE", "PLACE", "RULE", "SURE")


def callers(
    symbol: Symbol,
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    repository: Repository = "",
    branch: Branch = "",
    limit: Limit = 50,
    after: After = 0,
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Who calls a function, method or class."""
    asked = _asked(api.Callers, owner, project, group, repository, branch, symbol=symbol, limit=limit, after=after)
    found = access.through(url, token, lambda kb: kb.code.callers(asked))
    _show(found, output, table.plain(_CALLS, [_call(one) for one in found.calls]), found.coverage)


def callees(
    symbol: Symbol,
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    repository: Repository = "",
    branch: Branch = "",
    limit: Limit = 50,
    after: After = 0,
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """What a function or method calls."""
    asked = _asked(api.Callers, owner, project, group, repository, branch, symbol=symbol, limit=limit, after=after)
    found = access.through(url, token, lambda kb: kb.code.callees(asked))
    _show(found, output, table.plain(_CALLS, [_call(one) for one in found.calls]), found.coverage)


def impact(
    symbol: Symbol,
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    repository: Repository = "",
    branch: Branch = "",
    depth: Annotated[int, typer.Option(min=1, max=20, help="Steps away at most.")] = 5,
    limit: Limit = 50,
    after: After = 0,
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """What may break when a declaration changes, and the tests to run."""
    asked = _asked(
        api.Impact, owner, project, group, repository, branch, symbol=symbol, depth=depth, limit=limit, after=after
    )
    found = access.through(url, token, lambda kb: kb.code.impact(asked))
    rows = [
        (str(one.distance), one.place.qualified_name, one.by, one.of, f"{one.place.path}:{one.place.line}")
        for one in found.affected
    ]
    _show(found, output, table.plain(("STEPS", "AFFECTED", "BY", "OF", "PLACE"), rows), found.coverage)
    if output is Format.TABLE:
        sys.stdout.write("\n".join(["Tests to run:", *map(printable.line, found.tests)]) + "\n" if found.tests else "")


def path(
    source: Annotated[str, typer.Argument(metavar="A", help="Where the way begins.")],
    target: Annotated[str, typer.Argument(metavar="B", help="Where it ends.")],
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    repository: Repository = "",
    branch: Branch = "",
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """The shortest way by calls from A to B."""
    asked = _asked(api.CodePath, owner, project, group, repository, branch, source=source, target=target)
    found = access.through(url, token, lambda kb: kb.code.path(asked))
    _show(found, output, table.plain(_CALLS, [_call(one) for one in found.calls]), found.coverage)


def history(
    symbol: Annotated[
        str, typer.Argument(metavar="SYMBOL", help="End of a qualified name, PATH:NAME, or the PATH of a file.")
    ],
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    repository: Repository = "",
    branch: Branch = "",
    limit: Limit = 50,
    after: After = 0,
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Which commits changed a declaration or a file, also before the file was renamed."""
    asked = _asked(api.CodeHistory, owner, project, group, repository, branch, symbol=symbol, limit=limit, after=after)
    found = access.through(url, token, lambda kb: kb.code.history(asked))
    rows = [
        (one.hash[:12], str(one.date.date()) if one.date else "", one.author, one.change, one.path, one.title)
        for one in found.commits
    ]
    drawn = table.plain(("COMMIT", "DATE", "AUTHOR", "CHANGE", "PATH", "TITLE"), rows)
    _show(found, output, drawn, found.coverage)
    if output is Format.TABLE:
        notes = [f"{one.hash[:12]} renamed {one.old_path} to {one.path}" for one in found.renames]
        if found.unread:
            notes.append(f"{found.unread} other commits changed the file; of which declarations is not known")
        sys.stdout.write("".join(f"{printable.line(one)}\n" for one in notes))


def where(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text of an issue; `-` reads standard input.")],
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    repository: Repository = "",
    branch: Branch = "",
    limit: Annotated[int, typer.Option(min=1, max=50, help="Files and functions.")] = 10,
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Files and functions that a text is about, ranked without a model."""
    given = sys.stdin.read() if text == "-" else text
    asked = _asked(api.CodeWhere, owner, project, group, repository, branch, text=given, limit=limit)
    found = access.through(url, token, lambda kb: kb.code.where(asked))
    rows = [("file", one.path, "", f"{one.score:.3f}") for one in found.files]
    rows += [
        (one.place.kind, one.place.qualified_name, f"{one.place.path}:{one.place.line}", f"{one.score:.3f}")
        for one in found.functions
    ]
    _show(found, output, table.plain(("KIND", "NAME", "PLACE", "SCORE"), rows), found.coverage)


def outline(
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    repository: Repository = "",
    branch: Branch = "",
    tokens: Annotated[int, typer.Option(min=64, max=32_768, help="Length of the outline in tokens.")] = 1024,
    near: Annotated[list[str] | None, typer.Option(help="Path or symbol that it is about; may be repeated.")] = None,
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """An outline of what matters most in a repository."""
    asked = _asked(api.CodeMap, owner, project, group, repository, branch, tokens=tokens, near=near or [])
    found = access.through(url, token, lambda kb: kb.code.map(asked))
    _show(found, output, printable.text(found.text), found.coverage)


def add(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Working tree of a Git repository.")],
    repository: Annotated[str, typer.Option("--repository", help="ORG/NAME of the repository.")],
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    branch: Annotated[str, typer.Option("--branch", help="Name of the branch; without it the one checked out.")] = "",
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Make the code of a folder known as it is committed there; what was known of the branch is replaced."""
    org, _, name = repository.rpartition("/")
    commit = _git(folder, "rev-parse", "HEAD")
    of = branch or _git(folder, "rev-parse", "--abbrev-ref", "HEAD")
    listed = _git(folder, "ls-tree", "-r", "-l", "-z", "HEAD").split("\0")
    entries = [one for one in map(_entry, listed) if one[1] and api.is_source(one[0])]
    named = [one for one in entries if _PATH.match(one[0])][: api.MOST_SOURCES]
    files = [api.SourceFile(path=path, blob=blob, size=int(size)) for path, blob, size in named]
    odd = [path.encode(errors="replace").decode() for path, _, _ in entries if not _PATH.match(path)]
    left = [("odd-name", path) for path in odd]
    left += [("budget-files", path) for path, _, _ in entries if _PATH.match(path)][len(files) :]
    skipped = [api.SkippedFile(path=path[:700], reason=reason) for reason, path in left[: api.MOST_SOURCES]]
    tree = api.GitStructure(
        scope=access.where(owner, project, group),
        repository=api.Repository(org=org, name=name, default_branch=of),
        branch=of,
        commit=commit,
        files=files,
        skipped=skipped,
    )

    async def read(paths: Sequence[str]) -> Mapping[str, str]:
        return await asyncio.to_thread(_contents, folder, commit, paths)

    def shown(reply: api.GitStructureReply) -> None:
        left = f"{len(reply.missing)} files to send" if reply.state == "Wanted" else f"{reply.left} documents to write"
        if reply.state != "Done":
            sys.stderr.write(f"{left}\n")

    reply = access.through(url, token, lambda kb: kb.code.send(tree, read, shown=shown))
    for one in reply.failed:
        sys.stderr.write(printable.text(f"{one.path}: {one.problem.message}") + "\n")
    sys.stdout.write(
        f"{reply.files} files, {reply.symbols} declarations, {reply.calls} calls at commit {commit[:12]}; "
        f"{len(reply.skipped)} files skipped\n"
    )


_SHOWN_SECONDS = 3.0
"""Between two looks at a query that has not ended."""


def query(
    text: Annotated[
        str, typer.Argument(metavar="QUERY", help="CPGQL, such as 'cpg.method.name.l'; - reads it from stdin.")
    ],
    connection: Annotated[str, typer.Option("--connection", help="Git Connection of the repository.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the Connection.")],
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    ref: Annotated[str, typer.Option("--ref", help="Name of a branch; without it the default branch.")] = "",
    seconds: Annotated[int, typer.Option("--seconds", help="Upper bound of its Job.")] = 600,
    wait: Annotated[bool, typer.Option(help="Wait for the result; otherwise print the id.")] = True,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Run a query of Joern about a branch, in a Job; the installation has to allow it (joern.adHocQueries)."""
    where = access.where(owner, project, group)
    try:
        asked = api.CodeQuery(
            scope=where,
            namespace=namespace,
            connection=connection,
            ref=ref,
            query=sys.stdin.read() if text == "-" else text,
            seconds=seconds,
        )
    except ValueError as error:
        raise errors.Unusable(
            f"The query cannot be sent like this: {access.first(error)}.", remedy="See jervis-kb code query --help."
        ) from error
    found = access.through(url, token, lambda kb: kb.analyze.ask(asked))
    if not wait:
        sys.stdout.write(f"{found.id}\n")
        return
    sys.stderr.write(f"query {found.id}\n")
    _ended(where, found.id, url, token)


def result(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Of a query, as `query --no-wait` printed it.")],
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Wait for the result of a query and print it."""
    _ended(access.where(owner, project, group), id_, url, token)


def _ended(where: scope.Scope, id_: str, url: str, token: str) -> None:
    state = ""
    while True:
        found = access.through(url, token, lambda kb: kb.analyze.show(where, id_))
        if found.state is api.QueryState.SUCCEEDED:
            sys.stdout.write(printable.text(found.result).rstrip("\n") + "\n")
            return
        if found.state is api.QueryState.FAILED:
            raise errors.Unusable(
                f"The query failed ({found.reason}): {found.message}", remedy="Correct it and ask again."
            )
        if found.state != state:
            state = found.state
            sys.stderr.write(f"{state.lower()}\n")
        time.sleep(_SHOWN_SECONDS)


def enrich(
    export: Annotated[Path, typer.Argument(metavar="EXPORT", help="cpg-export.json that Joern's image left.")],
    repository: Annotated[str, typer.Option("--repository", help="ORG/NAME of the repository.")],
    owner: access.Client,
    folder: Annotated[Path, typer.Option("--folder", help="Working tree that was analyzed.")] = Path(),
    project: access.Project = "",
    group: access.Group = "",
    branch: Annotated[str, typer.Option("--branch", help="Name of the branch; without it the one checked out.")] = "",
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Put what Joern exported beside the code of the branch, which has to be known as it is committed there."""
    org, _, name = repository.rpartition("/")
    try:
        said = api.CpgExport.model_validate_json(export.read_bytes())
    except (OSError, ValueError) as error:
        raise errors.Unusable(
            f"{export} is no export: {access.first(error) if isinstance(error, ValueError) else error.strerror}.",
            field="EXPORT",
            remedy="Name the cpg-export.json that /opt/joern/analyze left below .jervis.",
        ) from error
    asked = api.Cpg(
        scope=access.where(owner, project, group),
        repository=api.Repository(org=org, name=name),
        branch=branch or _git(folder, "rev-parse", "--abbrev-ref", "HEAD"),
        commit=_git(folder, "rev-parse", "HEAD"),
        export=said,
    )
    reply = access.through(url, token, lambda kb: kb.code.enrich(asked))
    for one in said.missing:
        sys.stderr.write(printable.text(f"{one.language}: {one.files} files not analyzed: {one.reason}") + "\n")
    sys.stdout.write(
        f"{reply.calls} calls, {reply.extends} bases, {reply.uses_type} uses of types, {reply.signatures} signatures "
        f"at commit {asked.commit[:12]}; {reply.unmatched} declarations of the export are not known\n"
    )


def application() -> typer.Typer:
    """The group of commands."""
    app = typer.Typer(
        help="Questions about code: callers, callees, impact, path, history, where, map, query.", no_args_is_help=True
    )
    app.command("add")(add)
    app.command("callers")(callers)
    app.command("callees")(callees)
    app.command("impact")(impact)
    app.command("path")(path)
    app.command("history")(history)
    app.command("where")(where)
    app.command("map")(outline)
    app.command("query")(query)
    app.command("result")(result)
    app.command("enrich")(enrich)
    return app


def _asked(
    model: type[_Question], owner: str, project: str, group: str, repository: str, branch: str, **more: Any
) -> _Question:
    where = access.where(owner, project, group)
    try:
        return model(scope=where, repository=repository, branch=branch or None, **more)
    except ValueError as error:
        raise errors.Unusable(
            f"The question cannot be asked like this: {access.first(error)}.",
            field="SYMBOL",
            remedy="Give the end of a qualified name, or PATH:NAME.",
        ) from error


def _show(found: _Reply, output: Format, drawn: Any, known: api.Coverage) -> None:
    Output(output).show(found.model_dump(mode="json", by_alias=True), drawn)
    if output is Format.TABLE:
        left = ", ".join(f"{number} {reason}" for reason, number in known.skipped.items())
        unknown = f"; calls not known: {', '.join(known.calls_unknown)}" if known.calls_unknown else ""
        state = "" if known.current else "; a newer commit is being read"
        sys.stdout.write(
            f"{printable.line(known.repository)} {printable.line(known.branch)} at {known.commit[:12]}: "
            f"{known.files} files{f', not read: {left}' if left else ''}{unknown}{state}\n"
        )


def _call(one: api.CodeCall) -> table.Row:
    place = f"{one.caller.path}:{one.line}"
    return (one.caller.qualified_name, one.callee.qualified_name, place, one.rule, f"{one.confidence:.2f}")


def _entry(line: str) -> tuple[str, str, str]:
    """(path, blob, size) of a line of `git ls-tree -r -l -z`; ('', '', '0') for what is no file."""
    about, _, path = line.partition("\t")
    fields = about.split()
    if len(fields) < 4 or fields[1] != "blob" or fields[0] == "120000" or not fields[3].isdigit():
        return "", "", "0"
    return path, fields[2], fields[3]


def _contents(folder: Path, commit: str, paths: Sequence[str]) -> Mapping[str, str]:
    found = {}
    for one in paths:
        done = _run(folder, "cat-file", "blob", f"{commit}:{one}")
        if not done.returncode:
            found[one] = source_text.decode(done.stdout)
    return found


def _git(folder: Path, *arguments: str) -> str:
    done = _run(folder, *arguments)
    if done.returncode:
        raise errors.Unusable(
            f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()[:300]}",
            field="FOLDER",
            remedy="Name the working tree of a Git repository that has a commit.",
        )
    return done.stdout.decode(errors="surrogateescape").strip("\n")


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, check=False)  # noqa: S603 -- git, with arguments of ours
