"""What leads from file to file of a project: calls, imports, bases."""

from __future__ import annotations

from collections.abc import Mapping

from codegraph.parse.facts import FileFacts
from codegraph.resolve import calls, links
from codegraph.resolve.project import Project


def resolve(files: Mapping[str, FileFacts], configuration: Mapping[str, bytes]) -> Project:
    """The project of these files by path; `configuration` has the contents of its project files by path.

    The same files give the same project, in whatever order they come.
    """
    ordered = {path: files[path] for path in sorted(files)}
    found = links.Links(ordered, configuration)
    facts = {path: file.calls for path, file in ordered.items() if isinstance(file.calls, calls.CallFacts)}
    return Project(
        ordered,
        calls.resolve(facts, configuration),
        {path: made for path, file in ordered.items() if (made := found.imports(file))},
        dict(one for file in ordered.values() for one in found.extends(file)),
    )
