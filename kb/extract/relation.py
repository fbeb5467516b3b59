"""Relationships that a text states in one of the four written formats. Pure, no model involved.

Seed 001 "Supported Formats":

    pipe       jira:TASK-123|MENTIONS|user:john
    arrow      file:Service.kt->MODIFIED_BY->commit:abc123
    bracket    class:UserService -[CALLS]-> method:authenticate
    metadata   relationships: [ "jira:TASK-123|MENTIONS|user:john", ... ]

and "Short-hand Expansion": an end that is only the document's own value (`TASK-123`) means the document. Both ends must
be references or that short-hand, so that a Markdown table or a line of code is not taken for knowledge.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from crds import scope
from kb.extract import reference

_LINE = re.compile(
    r"""^[\s"'\-*>`]*                                   # list markers and quotes of a metadata block
        (?P<source>[^|"'`\[\]<>]{1,200}?)\s*
        (?:\|\s*(?P<pipe>[^|"'`\[\]<>]{1,80}?)\s*\|
          |->\s*(?P<arrow>[^|"'`\[\]<>]{1,80}?)\s*->
          |-\[\s*(?P<bracket>[^|"'`\[\]<>]{1,80}?)\s*\]->)
        \s*(?P<target>[^|"'`\[\]<>]{1,200}?)[\s"'`,\]]*$""",
    re.VERBOSE,
)
# Two ends, a name between them, and the marks around.
_LONGEST = 600
_BLOCK = re.compile(r"relationships\s*:\s*\[(?P<body>.*?)\]", re.DOTALL | re.IGNORECASE)
_QUOTED = re.compile(r"\"([^\"\n]+)\"|'([^'\n]+)'")


@dataclass(frozen=True)
class Stated:
    """A relationship by the canonical keys of its ends; `evidence` is the verbatim text that states it."""

    source: str
    type: str
    target: str
    evidence: str


def find(text: str, *, anchor: str, where: scope.Scope) -> list[Stated]:
    """Every relationship stated in `text`, in order, each once. `anchor` is the key of the document itself."""
    candidates: list[str] = []
    for block in _BLOCK.finditer(text):
        candidates += [double or single for double, single in _QUOTED.findall(block["body"])]
    candidates += text.splitlines()
    found: dict[tuple[str, str, str], Stated] = {}
    for candidate in candidates:
        stated = _read(candidate, anchor, where)
        if stated is not None:
            found.setdefault((stated.source, stated.type, stated.target), stated)
    return list(found.values())


def _read(line: str, anchor: str, where: scope.Scope) -> Stated | None:
    line = line.strip()
    # Cheaper than the pattern, which looks at a long line of blanks or dashes again and again.
    if len(line) > _LONGEST or not ("|" in line or "->" in line):
        return None
    match = _LINE.match(line)
    if match is None:
        return None
    source = end(match["source"], anchor, where)
    target = end(match["target"], anchor, where)
    name = reference.edge_type(match["pipe"] or match["arrow"] or match["bracket"])
    if source is None or target is None or not name or source == target:
        return None
    return Stated(source, name, target, line.strip())


def end(text: str, anchor: str, where: scope.Scope) -> str | None:
    """The key of an end: a reference, or the document's own value; None for anything else."""
    own = anchor.partition("::")[2] or anchor.partition(":")[2]
    if text.strip().casefold() in (own.casefold(), own.partition("::")[0].casefold()):
        return anchor
    return reference.normalise(text, where)
