"""Configuration files of running programs: touched only when they change, as some programs end or reload at a touch."""

from __future__ import annotations

from pathlib import Path


def write(path: Path, content: str) -> Path:
    """Make `path` hold `content`, readable by its owner only, in one step; an equal file stays untouched."""
    if not path.exists() or path.read_text() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.new")
        unfinished.touch(mode=0o600)
        unfinished.write_text(content)
        unfinished.replace(path)
    return path
