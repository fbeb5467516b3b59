"""One description for each language; `of` gives it. Queries are compiled once in a process."""

from __future__ import annotations

import functools
import importlib.resources

import tree_sitter

from codegraph.parse import grammars
from codegraph.parse.languages import ecma, go, java, kotlin, python, rust, structural
from codegraph.parse.languages.description import Language

_ALL = {
    language.grammar: language
    for language in (
        python.LANGUAGE,
        java.LANGUAGE,
        kotlin.LANGUAGE,
        go.LANGUAGE,
        rust.LANGUAGE,
        ecma.JAVASCRIPT,
        ecma.TYPESCRIPT,
        ecma.TSX,
        *structural.LANGUAGES,
    )
}


def of(grammar: str) -> Language:
    """The description of a language. Raises KeyError for one that is not in `codegraph.parse.grammars`."""
    return _ALL[grammar]


@functools.cache
def query(grammar: str) -> tree_sitter.Query:
    """The compiled query of a language. Raises tree_sitter.QueryError when it does not fit the grammar."""
    folder = importlib.resources.files("codegraph.parse") / "queries"
    written = "".join((folder / f"{name}.scm").read_text() for name in _ALL[grammar].queries)
    return tree_sitter.Query(grammars.load(grammar), written)
