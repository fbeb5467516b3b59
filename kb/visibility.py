"""Who sees what: the one rule that both stores translate into their own filters.

Source: seed 001 "Multi-tenant Scoping (with Project Groups)". An owner is the Scope that data was written with,
a viewer the Scope that a question carries:

    global data                        everybody
    client data    (X, "", "")         every viewer of client X
    group data     (X, "", G)          viewers of client X in group G
    project data   (X, Y, G or "")     viewers of client X in project Y, and, through its group, those in group G

The seed's filter line `projectId == "" OR projectId == mine OR groupId == mine` taken literally would show group data
to projects outside the group; its table says otherwise and the table holds.

This module is pure; the property tests use `sees` as the oracle for every store.
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


def clients(viewer: scope.Scope) -> list[str]:
    """The partitions (by client id, "" is the global one) in which a viewer's data can lie."""
    return [""] if viewer.is_global else ["", viewer.client_id]
