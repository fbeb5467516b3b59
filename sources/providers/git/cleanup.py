"""The steps of `core.cleanup` for clones: those of Connections that are gone, and what killed pushes left."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sources.core import assignments
from sources.core.cleanup import Step
from sources.providers.git import clone, quarantine


def clones(assigned: assignments.Assignments, workspace: clone.Workspace) -> Step:
    """Delete the clones of Connections that are gone. Raises `Unavailable`, `OSError`."""

    async def step() -> int:
        return len(await asyncio.to_thread(workspace.keep, await assigned.uids()))

    return step


def pushes(root: Path) -> Step:
    """Delete what killed pushes left in the workspace `root`. Raises `OSError`."""

    async def step() -> int:
        return len(await asyncio.to_thread(quarantine.purge, root))

    return step
