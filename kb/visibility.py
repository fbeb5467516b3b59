"""Who sees what: the one rule that both stores translate into their own filters.

Source: seed 001 "Multi-tenant Scoping (with Project Groups)". An owner is the Scope that data was written with,
a viewer the Scope that a question carries:

    global data                        every viewer
    client data    (X, "", "")         every viewer of client X
    group data     (X, "", G)          viewers of client X in group G
    project data   (X, Y, G or "")     viewers of client X in project Y, and, through its group, those in group G

The seed's filter line `projectId == "" OR projectId == mine OR groupId == mine` taken literally would show group data
to projects outside the group; its table says otherwise and the table holds.

What is laid down (a rule, an alias) is not knowledge: it holds where its owner says and no group shares it.
A project's own rules and aliases hold for that project alone, a group's for the group and its projects (`governs`).

What a source shows to some alone (`crds.access`) is shown to a viewer with principals only where it names one of them,
and only in the present: who could see a replaced version is not asked.

This module is pure; the property tests use `sees` as the oracle for every store. Its translations are `sql` and `aql`
here, `kb.mongo.visible` and `kb.mongo.governing`, and `kb.vectors.weaviate.filters.sees`.
"""

from __future__ import annotations

from collections.abc import Mapping

from crds import access, scope

ACCESS = access.METADATA
"""Where the access of a document is stored: its labels (`kb.selection.labels`) are what both stores compare."""
_PUBLIC, _NOBODY = "public", "nobody"


def stored(given: access.Access) -> list[str]:
    """The value of `ACCESS`; [] where it is unknown."""
    if given.visibility is access.Visibility.PUBLIC:
        return [_PUBLIC]
    if given.visibility is access.Visibility.UNKNOWN:
        return []
    return list(given.principals) or [_NOBODY]


def read(value: object) -> access.Access:
    """The access of a value of `ACCESS`."""
    found = [str(one) for one in value] if isinstance(value, list) else []
    if found and set(found) == {_PUBLIC}:
        return access.PUBLIC
    # Beside principals it was never given: a sender's own field had that name once, within another one.
    found = [one for one in found if one != _PUBLIC]
    return access.restricted(set(found) - {_NOBODY}) if found else access.UNKNOWN


def in_labels(labels: tuple[str, ...] | None) -> access.Access:
    """The access among the labels of a document (`kb.selection.labels`)."""
    named = [one.removeprefix(f"{ACCESS}=") for one in labels or () if one.startswith(f"{ACCESS}=")]
    return read(named)


def wanted(viewer: scope.Scope) -> list[str] | None:
    """The labels of which a document must have one to be shown to the viewer; None: it is shown all of the scope."""
    if not isinstance(viewer, scope.Viewer):
        return None
    return [f"{ACCESS}={one}" for one in (_PUBLIC, *viewer.principals)]


def shows(viewer: scope.Scope, labels: tuple[str, ...] | None, *, replaced: bool = False) -> bool:
    """Whether the viewer's principals may see a document of the present, or a `replaced` version, with these labels."""
    named = wanted(viewer)
    return named is None or (not replaced and not set(named).isdisjoint(labels or ()))


def without(metadata: Mapping[str, object]) -> dict[str, object]:
    """The sender's own part of a document's metadata."""
    return {name: value for name, value in metadata.items() if name != ACCESS}


def sees(viewer: scope.Scope, owner: scope.Scope) -> bool:
    """Whether a question asked in `viewer` may be answered from data written in `owner`."""
    if owner.is_global:
        return True
    if owner.client_id != viewer.client_id:
        return False
    if not owner.project_id and not owner.group_id:
        return True
    same_project = bool(owner.project_id) and owner.project_id == viewer.project_id
    same_group = bool(owner.group_id) and owner.group_id == viewer.group_id
    return same_project or same_group


def governs(owner: scope.Scope, where: scope.Scope) -> bool:
    """Whether a rule or an alias of `owner` holds in `where`."""
    if owner.is_global:
        return True
    if owner.client_id != where.client_id:
        return False
    if owner.project_id:
        return owner.project_id == where.project_id
    return not owner.group_id or owner.group_id == where.group_id


def sql(row: str = "", world: str = "''") -> str:
    """`sees` as an SQL condition over the columns client, project and grp of `row` (such as "d.").

    Its parameters are the viewer's `:client`, `:project` and `:grp`; `world` is the partition of global data.
    """
    return f"""({row}client = {world} OR ({row}client = :client AND (
    ({row}project = '' AND {row}grp = '')
    OR ({row}project <> '' AND {row}project = :project)
    OR ({row}grp <> '' AND {row}grp = :grp))))"""


def sql_access(row: str) -> str:
    """What the viewer's principals may see, over the columns labels and until; its parameter is `:principals`, `wanted`
    as a JSON array or NULL."""
    named = f"EXISTS (SELECT 1 FROM json_each({row}labels) WHERE value IN (SELECT value FROM json_each(:principals)))"  # noqa: S608  # a constant
    return f"(:principals IS NULL OR ({row}until IS NULL AND {named}))"


def aql(row: str = "x") -> str:
    """`sees` as an AQL condition over projectId, groupId, labels and untilMs of `row`, which lies in a collection of
    the viewer's client or, with `@everything` set, in a global one. Its other parameters are the viewer's `@project`
    and `@group`, and `@principals`: `wanted`."""
    return f"""(@principals == null
        OR ({row}.untilMs == null AND {row}.labels != null AND {row}.labels ANY IN @principals))
    AND (@everything OR ({row}.projectId == "" AND {row}.groupId == "")
    OR (@project != "" AND {row}.projectId == @project) OR (@group != "" AND {row}.groupId == @group))"""


def clients(viewer: scope.Scope) -> list[str]:
    """The partitions (by client id, "" is the global one) in which a viewer's data can lie."""
    return [""] if viewer.is_global else ["", viewer.client_id]
