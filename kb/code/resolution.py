"""What leads from file to file of a project: calls, imports, bases."""

from __future__ import annotations

from collections.abc import Mapping

from kb.code.facts import FileFacts
from kb.code.project import Project


def resolve(files: Mapping[str, FileFacts], configuration: Mapping[str, str]) -> Project:
    """The project of these files by path; `configuration` has the texts of its project files by path."""
    return Project(dict(files))
