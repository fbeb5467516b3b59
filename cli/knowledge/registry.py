"""`jervis-kb rules`, `procedures`, `aliases`, `types` and `links`: what people decide, beside what documents say."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pydantic
import typer
from pydantic import alias_generators

from cli import errors
from cli.knowledge import access
from cli.output import Format, Output
from cli.views import table
from crds import scope
from kb import api
from text import printable

_Draft = TypeVar("_Draft", bound=api.Request)
_Key = Annotated[str, typer.Argument(metavar="KEY", help="Key of the rule, unique in its scope.")]
_NodeKey = Annotated[str, typer.Argument(metavar="ALIAS", help="Key of the node that is the other one.")]


def rules_listed(
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    kind: Annotated[api.RuleType | None, typer.Option("--type", help="Only rules of this type.")] = None,
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """The rules in force in the scope, those of wider scopes included."""
    where = access.where(owner, project, group)
    _rules(access.through(url, token, lambda api: api.rules.in_force(where, kind)), output)


def rules_history(
    key: _Key,
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Every version of a rule, newest first."""
    where = access.where(owner, project, group)
    _rules(access.through(url, token, lambda api: api.rules.history(where, key)), output)


def rules_set(
    key: _Key,
    content: Annotated[str, typer.Argument(metavar="TEXT", help="The rule; `-` reads it from standard input.")],
    owner: access.Client,
    by: access.By,
    project: access.Project = "",
    group: access.Group = "",
    kind: Annotated[api.RuleType, typer.Option("--type", help="What the rule is about.")] = api.RuleType.CUSTOM,
    description: Annotated[str, typer.Option(help="Why the rule exists.")] = "",
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Put a rule into force; a former version of it stays in its history."""
    draft = _draft(
        api.RuleDraft,
        scope=access.where(owner, project, group),
        rule_key=key,
        rule_type=kind,
        rule_content=sys.stdin.read() if content == "-" else content,
        description=description,
        created_by=by,
    )
    made = access.through(url, token, lambda api: api.rules.put(draft))
    sys.stdout.write(f"{printable.line(made.rule_key)} is in force as version {made.version}\n")


def rules_deleted(
    key: _Key,
    owner: access.Client,
    by: access.By,
    project: access.Project = "",
    group: access.Group = "",
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Take a rule out of force; its history stays."""
    where = access.where(owner, project, group)
    access.through(url, token, lambda api: api.rules.delete(where, key, by))
    sys.stdout.write(f"{printable.line(key)} is out of force\n")


def procedures_listed(
    owner: access.Client,
    trigger: Annotated[str | None, typer.Option(help="Only procedures for tasks like this.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Largest number of procedures.")] = 20,
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """How the tasks of a client are done, best first."""
    client_id = access.where(owner, "", "").client_id
    found = access.through(url, token, lambda api: api.memory.procedures(client_id, trigger, limit=limit))
    rows = [
        (
            one.id,
            one.trigger_pattern,
            one.source,
            f"{one.score:.2f}",
            str(one.usage_count),
            "; ".join(f"{step.get('agent')}: {step.get('action')}" for step in one.procedure_steps),
        )
        for one in found
    ]
    _show(found, output, "procedures", ("ID", "TRIGGER", "SOURCE", "SCORE", "USES", "STEPS"), rows)


def procedures_set(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            allow_dash=True,
            help='JSON, or `-`: {"triggerPattern": ..., "procedureSteps": [{"agent": ..., "action": ...}]}.',
        ),
    ],
    owner: access.Client,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Define how tasks are done; a definition of a person comes before what was learned."""
    text = sys.stdin.read() if str(file) == "-" else file.read_text()
    try:
        given = pydantic.TypeAdapter(dict[str, Any]).validate_json(text)
    except pydantic.ValidationError as error:
        raise errors.Unusable(
            f"{file} is no JSON object: {access.first(error)}.", field="FILE", remedy="See --help for its shape."
        ) from error
    client_id = access.where(owner, "", "").client_id
    draft = _draft(api.ProcedureDraft, **{"source": "user_defined", **given, "clientId": client_id})
    made = access.through(url, token, lambda api: api.memory.save_procedure(draft))
    sys.stdout.write(f"{printable.line(made.trigger_pattern)} is saved as {made.id}\n")


def procedures_deleted(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Id of the procedure, as the list prints it.")],
    owner: access.Client,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Delete a procedure."""
    client_id = access.where(owner, "", "").client_id
    access.through(url, token, lambda api: api.memory.forget_procedure(client_id, id_))
    sys.stdout.write(f"{printable.line(id_)} deleted\n")


def aliases_listed(
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    key: Annotated[str | None, typer.Option(help="Only aliases from or to this key.")] = None,
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Which keys mean which nodes in the scope."""
    where = access.where(owner, project, group)
    found = access.through(url, token, lambda api: api.aliases.listed(where, key=key))
    rows = [(one.alias, one.canonical, one.state, str(one.seen_count), one.created_by) for one in found]
    _show(found, output, "aliases", ("ALIAS", "MEANS", "STATE", "SEEN", "BY"), rows)


def aliases_candidates(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Key of a node.")],
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Nodes that may be the same thing, the most similar first; nothing is merged."""
    where = access.where(owner, project, group)
    found = access.through(url, token, lambda api: api.aliases.candidates(where, key))
    rows = [(one.key, one.other, f"{one.likeness:.2f}") for one in found]
    _show(found, output, "candidates", ("KEY", "OTHER", "SIMILARITY"), rows)


def aliases_set(
    alias: _NodeKey,
    canonical: Annotated[str, typer.Argument(metavar="KEY", help="Key of the node that it means.")],
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    by: access.By = "",
    across_types: Annotated[bool, typer.Option(help="Allow two nodes of different types.")] = False,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Let one node's key mean another node; documents that say it are changed by the queue."""
    where = access.where(owner, project, group)
    merge = _draft(api.Merge, scope=where, alias=alias, canonical=canonical, by=by, across_types=across_types)
    made = access.through(url, token, lambda api: api.aliases.merge(merge))
    sys.stdout.write(
        printable.line(f"{made.alias} means {made.canonical}; {made.documents} documents are changed") + "\n"
    )


def aliases_deleted(
    alias: _NodeKey,
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Take an alias back."""
    where = access.where(owner, project, group)
    made = access.through(url, token, lambda api: api.aliases.unmerge(where, alias))
    sys.stdout.write(printable.line(f"{made.alias} is a node again; {made.documents} documents are changed") + "\n")


def types_listed(
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """The entity types that count in the scope beside those that every extraction knows, wider scopes' included."""
    where = access.where(owner, project, group)
    _types(access.through(url, token, lambda api: api.types.listed(where)), output)


def types_set(
    types: Annotated[list[str], typer.Argument(metavar="NAME=DESCRIPTION", help="A type and one line about it.")],
    owner: access.Client,
    by: access.By,
    project: access.Project = "",
    group: access.Group = "",
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Replace all entity types of exactly the scope; documents that are sent from now on are extracted with them."""
    given = [dict(zip(("name", "description"), one.split("=", 1), strict=False)) for one in types]
    draft = _draft(api.EntityTypesDraft, scope=access.where(owner, project, group), types=given, by=by)
    _types(access.through(url, token, lambda api: api.types.put(draft)), output)


def types_deleted(
    owner: access.Client,
    by: access.By,
    project: access.Project = "",
    group: access.Group = "",
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Leave exactly the scope without entity types of its own; prints those of wider scopes that still count."""
    draft = _draft(api.EntityTypesDraft, scope=access.where(owner, project, group), types=[], by=by)
    _types(access.through(url, token, lambda api: api.types.put(draft)), output)


def links_listed(
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    output: access.Output = Format.TABLE,
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """The patterns of links that are safe or unsafe in the scope, wider scopes' included."""
    where = access.where(owner, project, group)
    found = access.through(url, token, lambda api: api.links.patterns(where))
    rows = [(one.pattern, one.list.value, one.by, one.reason) for one in found]
    _show(found, output, "patterns", ("PATTERN", "LIST", "BY", "REASON"), rows)


def _links_put(
    listed: api.LinkList, pattern: str, owner: scope.Scope, by: str, reason: str, url: str, token: str
) -> None:
    draft = _draft(api.LinkPatternDraft, scope=owner, pattern=pattern, list=listed, by=by, reason=reason)
    made = access.through(url, token, lambda api: api.links.put(draft))
    sys.stdout.write(printable.line(f"{made.pattern} is {made.list.value}") + "\n")


_LinkPattern = Annotated[
    str, typer.Argument(metavar="PATTERN", help="A host with all below it, as in example.com, or example.com/blog/*.")
]
_LinkReason = Annotated[str, typer.Option(help="Why, in a few words.")]


def links_safe(
    pattern: _LinkPattern,
    owner: access.Client,
    by: access.By,
    project: access.Project = "",
    group: access.Group = "",
    reason: _LinkReason = "",
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Open links that match the pattern without a question."""
    _links_put(api.LinkList.SAFE, pattern, access.where(owner, project, group), by, reason, url, token)


def links_unsafe(
    pattern: _LinkPattern,
    owner: access.Client,
    by: access.By,
    project: access.Project = "",
    group: access.Group = "",
    reason: _LinkReason = "",
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Never open links that match the pattern."""
    _links_put(api.LinkList.UNSAFE, pattern, access.where(owner, project, group), by, reason, url, token)


def links_deleted(
    pattern: _LinkPattern,
    owner: access.Client,
    project: access.Project = "",
    group: access.Group = "",
    url: access.Url = access.URL,
    token: access.Token = "",
) -> None:
    """Forget a pattern of exactly the scope."""
    where = access.where(owner, project, group)
    access.through(url, token, lambda api: api.links.delete(where, pattern))
    sys.stdout.write(f"{printable.line(pattern)} deleted\n")


def links() -> typer.Typer:
    """`links`."""
    app = typer.Typer(help="Which links of documents are opened.", no_args_is_help=True)
    app.command("list")(links_listed)
    app.command("safe")(links_safe)
    app.command("unsafe")(links_unsafe)
    app.command("delete")(links_deleted)
    return app


def rules() -> typer.Typer:
    """`rules`."""
    app = typer.Typer(help="Hard rules for runs, content, links, pages and tools of a scope.", no_args_is_help=True)
    app.command("list")(rules_listed)
    app.command("set")(rules_set)
    app.command("delete")(rules_deleted)
    app.command("history")(rules_history)
    return app


def procedures() -> typer.Typer:
    """`procedures`."""
    app = typer.Typer(help="How the tasks of a client are done.", no_args_is_help=True)
    app.command("list")(procedures_listed)
    app.command("set")(procedures_set)
    app.command("delete")(procedures_deleted)
    return app


def aliases() -> typer.Typer:
    """`aliases`."""
    app = typer.Typer(help="Which names mean which nodes of the graph.", no_args_is_help=True)
    app.command("list")(aliases_listed)
    app.command("candidates")(aliases_candidates)
    app.command("set")(aliases_set)
    app.command("delete")(aliases_deleted)
    return app


def types() -> typer.Typer:
    """`types`."""
    app = typer.Typer(help="Entity types of your own that documents are looked through for.", no_args_is_help=True)
    app.command("list")(types_listed)
    app.command("set")(types_set)
    app.command("delete")(types_deleted)
    return app


def _types(found: list[api.EntityType], output: Format) -> None:
    rows = [(one.name, one.description, _named(one.scope), one.by) for one in found]
    _show(found, output, "types", ("NAME", "DESCRIPTION", "OF", "BY"), rows)


def _named(owner: scope.Scope) -> str:
    """Whose a type is, in a word."""
    if owner.project_id:
        return f"project {owner.project_id}"
    if owner.group_id:
        return f"group {owner.group_id}"
    return f"client {owner.client_id}" if owner.client_id else "everyone"


def _rules(found: list[api.Rule], output: Format) -> None:
    rows = [
        (one.rule_key, one.rule_type.value, str(one.version), one.created_by, printable.line(one.rule_content, 80))
        for one in found
    ]
    _show(found, output, "rules", ("KEY", "TYPE", "VERSION", "BY", "CONTENT"), rows)


def _show(found: list[Any], output: Format, name: str, headings: tuple[str, ...], rows: Sequence[table.Row]) -> None:
    raw = {name: [one.model_dump(mode="json", by_alias=True) for one in found]}
    Output(output).show(raw, table.plain(headings, rows) if rows else f"There are no {name} in this scope.")


def _draft(shape: type[_Draft], **given: Any) -> _Draft:
    try:
        # By their names on the wire, which the error then says as the service would.
        return shape.model_validate({alias_generators.to_camel(name): value for name, value in given.items()})
    except pydantic.ValidationError as error:
        raise errors.Unusable(
            f"This cannot be sent: {access.first(error)}.", remedy="See --help for what is expected."
        ) from error
