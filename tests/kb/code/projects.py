"""Small projects for tests, extracted in this process: no workers are started."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent

from kb.code import extraction, grammars, resolution
from kb.code.index import Index
from kb.code.project import Project


def project(sources: Mapping[str, str]) -> Project:
    """The project of these sources by path; files without a grammar are its configuration."""
    files, configuration = {}, {}
    for path, text in sources.items():
        language = grammars.language_of(path)
        raw = dedent(text).encode()
        if language is None:
            configuration[path] = raw
        else:
            files[path] = extraction.extract(path, raw, language, extraction.collector(calls=True))
    return resolution.resolve(files, configuration)


def index(sources: Mapping[str, str]) -> Index:
    """What questions are asked of, for branch main of project shop."""
    return Index(project(sources), "main", "shop")
