"""Projects of a few lines: contents by path to the calls that are resolved in them."""

from __future__ import annotations

import textwrap

from codegraph.parse import grammars, parsing
from codegraph.resolve import calls


def facts(contents: dict[str, str]) -> dict[str, calls.CallFacts]:
    """The call facts of the sources among `contents`."""
    found: dict[str, calls.CallFacts] = {}
    for path, content in contents.items():
        language = grammars.language_of(path)
        source = textwrap.dedent(content).encode()
        one = calls.facts(parsing.parse(source, language), source, language) if language else None
        if one is not None:
            found[path] = one
    return found


def resolve(contents: dict[str, str]) -> calls.Calls:
    """The calls of a project; what is no source is configuration."""
    configuration = {path: text.encode() for path, text in contents.items() if calls.is_configuration(path)}
    return calls.resolve(facts(contents), configuration)


def edges(contents: dict[str, str]) -> list[str]:
    """`caller -> callee: rule` for each edge in order; a name is `file:qname`."""
    return [
        f"{one.caller_file}:{one.caller} -> {one.callee_file}:{one.callee}: {one.rule}"
        for one in resolve(contents).edges
    ]


def below(head: str, source: str, path: str = "a.py") -> list[str]:
    """`caller -> callee: rule` for each edge of the source, which stands below the head in one file."""
    edges = resolve({path: head + source}).edges
    lines = head.count("\n")
    return [f"{one.caller} -> {one.callee}: {one.rule}".strip() for one in edges if one.line > lines]


def inside(source: str, path: str = "a.py") -> list[str]:
    """`line caller -> callee: rule` for each edge of a project of one file."""
    return [f"{one.line} {one.caller} -> {one.callee}: {one.rule}" for one in resolve({path: source}).edges]
