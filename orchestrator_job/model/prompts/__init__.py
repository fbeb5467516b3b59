"""Prompts as files: `NAME.vN.txt` is the prompt `job.NAME/vN`. A change of wording is a new file."""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def text(name: str) -> str:
    """The prompt NAME.vN of that file, without blanks around it."""
    return (resources.files(__name__) / f"{name}.txt").read_text(encoding="utf-8").strip()


def tagged(name: str) -> str:
    """The same behind its tag, `[prompt:job.NAME/vN]`."""
    return f"[prompt:job.{name.replace('.v', '/v')}]\n{text(name)}"
