"""How much source a pass reads, and which files it does not look at."""

from __future__ import annotations

from dataclasses import dataclass

VENDORED = frozenset(
    {
        ".git",
        ".gradle",
        ".hg",
        ".svn",
        ".tox",
        ".venv",
        "__pycache__",
        "bower_components",
        "node_modules",
        "site-packages",
        "vendor",
        "venv",
    }
)
"""Folders of what a project brings along from elsewhere, and of its tools."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one pass: sizes in bytes, times in seconds.

    Seed 001 "Tree-sitter Pipeline" has 150 files of 50 KB and 5 MB together (`SEEDED`), which leaves out most of a
    project's declarations (decision 0127).
    """

    files: int = 5_000
    file_bytes: int = 1_000_000
    total_bytes: int = 100_000_000
    seconds: float = 300.0
    vendored: frozenset[str] = VENDORED
    generated: bool = True
    """Whether generated files are read: other files call what they declare."""


DEFAULT = Budget()
SEEDED = Budget(files=150, file_bytes=50_000, total_bytes=5_000_000)
"""The limits of seed 001."""
