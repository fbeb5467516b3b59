"""A release whose knowledge base asks for tokens: its values, and the Secrets that they name."""

from __future__ import annotations

import hashlib
import json
from typing import Any

VALUES = {"existingSecret": {"name": "jervis-kb-tokens"}, "clientSecret": {"name": "jervis-kb-token"}}
"""`kb.tokens` of the release."""
_OPERATOR = "of-the-operator-of-this-test"


def secrets(clients: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """The operator's token, and those of `clients`, which open their client's scope: the client's ID by token."""
    entries = [
        {"name": owner, "sha256": hashlib.sha256(token.encode()).hexdigest(), "write": True, "scopes": [scope]}
        for token, owner, scope in (
            (_OPERATOR, "operator", {"clientId": "*"}),
            *((token, f"of-{client}", {"clientId": client}) for token, client in (clients or {}).items()),
        )
    ]
    held = {
        "jervis-kb-token": {"token": _OPERATOR},
        "jervis-kb-tokens": {"tokens.yaml": json.dumps({"tokens": entries})},
    }
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
        for name, data in held.items()
    ]
