"""What a Git Connection says about its repository: its name, whose its documents are, and who may read it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import unquote, urlsplit

from crds import connection, scope
from kb import api
from sources.core import port

_NAME_CHARS = 255
_TRACKERS: Mapping[str, Literal["github", "gitlab", "gitea"]] = {
    "github": "github", "gitlab": "gitlab", "gitea": "gitea", "codeberg": "gitea",
}  # fmt: skip


def of(url: str) -> api.Repository:
    """What the URL of a clone names. Raises `Misconfigured`."""
    parts = urlsplit(url)
    path = re.sub(r"[\s@]+", "-", unquote(parts.path)).strip("/").removesuffix(".git").rstrip("/")
    org, _, name = path.rpartition("/")
    if not name or len(org) > _NAME_CHARS or len(name) > _NAME_CHARS:
        raise port.Misconfigured(
            "The URL names no repository.", field="spec.url", remedy="Write https://HOST/ORG/NAME.git."
        )
    tracker = next((kind for word, kind in _TRACKERS.items() if word in (parts.hostname or "")), None)
    return api.Repository(org=org, name=name, tracker=tracker)


def owner(spec: connection.Spec) -> scope.Scope:
    """The scope of its documents."""
    return scope.Scope(client_id=spec.client_id, project_id=spec.project_id, group_id=spec.group_id)


def visible(spec: connection.Spec, run: scope.Scope) -> bool:
    """Whether a run may read it (seed 001 "Multi-tenant Scoping"): its client's, its project's, its group's."""
    if spec.client_id != run.client_id:
        return False
    if spec.project_id:
        return spec.project_id == run.project_id or bool(spec.group_id and spec.group_id == run.group_id)
    return not spec.group_id or spec.group_id == run.group_id
