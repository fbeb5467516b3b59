"""Small projects for tests, extracted in this process: no workers are started."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent

from codegraph.answer.index import Index
from codegraph.extract import packed_facts
from codegraph.parse import extraction, grammars
from codegraph.parse.facts import FileFacts
from codegraph.resolve import calls, resolution
from codegraph.resolve.project import Project


def packed(sources: Mapping[str, str]) -> list[bytes]:
    """Their facts as the worker that reads sources sends them to the one that answers questions."""
    return [packed_facts.pack(_facts(path, text.encode())) for path, text in sources.items()]


def _facts(path: str, raw: bytes) -> FileFacts:
    language = grammars.language_of(path)
    assert language is not None
    return extraction.extract(path, raw, language, calls.facts)


def project(sources: Mapping[str, str]) -> Project:
    """The project of these sources by path; files without a grammar are its configuration."""
    files, configuration = {}, {}
    for path, text in sources.items():
        raw = dedent(text).encode()
        if grammars.language_of(path) is None:
            configuration[path] = raw
        else:
            files[path] = _facts(path, raw)
    return resolution.resolve(files, configuration)


def index(sources: Mapping[str, str]) -> Index:
    """What questions are asked of, for branch main of project shop."""
    return Index(project(sources), "main", "shop")
