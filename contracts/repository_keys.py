"""The keys of what a repository consists of: repositories, branches, files, classes and methods. Pure.

Shapes of seed 001 "Node Types" (VCS). They are taken as they are, never folded: a path is another one in another case.

    repository__{org}_{repo}            branch__{branch}__{projectId}
    file__{path}__branch__{branch}__{projectId}       class__, method__ likewise
    symbol__{path}:{name}__{projectId}                a declaration in the history of its file, whatever the branch
"""

from __future__ import annotations

import hashlib
import re

_MOST_BYTES = 200
"""ArangoDB's keys have 254 bytes at most (seed 001 "Key length guard"); shown, these stay shorter than that."""
_HASHED = 66
"""Of these for `__` and a SHA-256 in hex."""
_KEY = re.compile(r"^(repository|branch|file|class|method|symbol)__(.+)$", re.DOTALL)


def repository(org: str, name: str) -> str:
    """The key of a repository."""
    return safe(f"repository__{org}_{name}" if org else f"repository__{name}")


def branch(name: str, project_id: str) -> str:
    """The key of a branch."""
    return safe(f"branch__{name}__{project_id}")


def file(path: str, of: str, project_id: str) -> str:
    """The key of a file as the branch `of` has it."""
    return safe(f"file__{path}__branch__{of}__{project_id}")


def class_(qualified: str, of: str, project_id: str) -> str:
    """The key of a class by its qualified name, as the branch `of` has it."""
    return safe(f"class__{qualified}__branch__{of}__{project_id}")


def method(container: str, name: str, of: str, project_id: str) -> str:
    """The key of a method of the class `container`; that of a function has the qualified name of its module there."""
    return safe(f"method__{container}__{name}__branch__{of}__{project_id}")


def symbol(path: str, name_: str, project_id: str) -> str:
    """The key of a declaration as commits changed it, by its name inside of the file."""
    return safe(f"symbol__{path}:{name_}__{project_id}")


def safe(key: str) -> str:
    """The key, or its beginning and its SHA-256 where it is longer than a store's key may be."""
    raw = key.encode()
    if len(raw) <= _MOST_BYTES:
        return key
    beginning = raw[: _MOST_BYTES - _HASHED].decode(errors="ignore")
    return f"{beginning}__{hashlib.sha256(raw).hexdigest()}"


def kind(key: str) -> str:
    """The type of such a key; "" for any other."""
    match = _KEY.match(key)
    return match[1] if match else ""


def name(key: str) -> str:
    """What such a key calls its node: a path, a branch; "" for any other key."""
    match = _KEY.match(key)
    if match is None:
        return ""
    if match[1] == "repository":
        return match[2]
    if match[1] in ("branch", "symbol"):
        return match[2].rpartition("__")[0] or match[2]
    return match[2].rpartition("__branch__")[0] or match[2]
