"""The name of the task that reads a link: documents of a project with the same link make one task. Pure."""

from __future__ import annotations

import base64
import hashlib

from crds import scope

_SEPARATOR = "\x1f"  # stands in no client's id


def name(owner: scope.Scope, url: str) -> str:
    """The same for every document of the project that has the link; where there is none, of the group or the client."""
    parts = [owner.client_id, url]
    if owner.project_id or owner.group_id:
        parts += ["project", owner.project_id] if owner.project_id else ["group", owner.group_id]
    digest = hashlib.sha256(_SEPARATOR.join(parts).encode()).digest()
    # 95 bits in letters that a name may have: with 24 characters `kubectl get -o wide` keeps its width.
    return f"link-{base64.b32encode(digest).decode().lower()[:19]}"
