"""What leads from file to file of a project: calls, imports, bases."""

from __future__ import annotations

from collections.abc import Mapping

from kb.code.facts import FileFacts
from kb.code.project import Project


def resolve(files: Mapping[str, FileFacts]) -> Project:
    """The project of these files."""
    return Project(dict(files))
