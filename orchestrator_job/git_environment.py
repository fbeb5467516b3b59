"""The environment in which a run starts Git: nothing of a repository or of the machine's configuration is run.

No hooks, no filters, no helpers, no prompts; symbolic links are plain files. Source: git-config(1), git(1).
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping

_SETTINGS = {
    "core.symlinks": "false", "core.hooksPath": os.devnull, "core.fsmonitor": "false", "protocol.version": "2",
    "core.protectHFS": "true", "core.protectNTFS": "true", "core.autocrlf": "false", "gc.auto": "0",
    "filter.lfs.smudge": "", "filter.lfs.required": "false", "safe.directory": "*", "submodule.recurse": "false",
}  # fmt: skip


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of a command of Git; `more` are settings beside those above, such as the header with the token."""
    settings = {**_SETTINGS, **(more or {})}
    made = {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "http:https", "GIT_CONFIG_COUNT": str(len(settings)),
    }  # fmt: skip
    if authorities := ssl.get_default_verify_paths().cafile:  # SSL_CERT_FILE, where that is set
        made["GIT_SSL_CAINFO"] = authorities
    for number, (name, value) in enumerate(settings.items()):
        made |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return made
