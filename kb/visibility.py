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

This module is pure; the property tests use `sees` as the oracle for every store. Its translations are `sql` and `aql`
here, `kb.mongo.visible` and `kb.mongo.governing`, and `kb.vectors.weaviate.filters.sees`.
"""

from __future__ import annotations

from crds import scope


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


def aql(row: str = "x") -> str:
    """`sees` as an AQL condition over projectId and groupId of `row`, which lies in a collection of the viewer's client
    or, with `@everything` set, in a global one. Its other parameters are the viewer's `@project` and `@group`."""
    return f"""(@everything OR ({row}.projectId == "" AND {row}.groupId == "")
    OR (@project != "" AND {row}.projectId == @project) OR (@group != "" AND {row}.groupId == @group))"""


def clients(viewer: scope.Scope) -> list[str]:
    """The partitions (by client id, "" is the global one) in which a viewer's data can lie."""
    return [""] if viewer.is_global else ["", viewer.client_id]
