"""Files that say how a project is put together, kept with the facts of its sources: names are resolved by them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class File:
    """One of them (`codegraph.api.is_project_file`)."""

    path: str
    content: bytes
