"""A folder into the knowledge base, several files at once, with patience for a service that is busy."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import stamina

from cli.knowledge import folder
from crds import errors, scope
from kb import api, client

_LONGEST_WAIT = 60.0
_patiently = stamina.AsyncRetryingCaller(attempts=8, timeout=None, wait_initial=1.0, wait_max=_LONGEST_WAIT)


@dataclass
class Result:
    """Names of the files by what became of them; `failed` and `skipped` with the reason."""

    new: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    away: bool = False


async def run(
    kb: client.Client,
    owner: scope.Scope,
    files: list[folder.File],
    *,
    kind: str,
    parallel: int,
    done: Callable[[folder.File], None],
    metadata: Mapping[str, str | list[str]] | None = None,
) -> Result:
    """Send every file; `done` is called for each. A file that cannot be taken does not keep the others.

    `metadata` is stored with every document, for questions to narrow by.
    """
    result = Result()
    waiting = list(files)[::-1]

    async def work() -> None:
        while waiting:
            file = waiting.pop()
            send = functools.partial(_send, kb, owner, file, kind, metadata or {})
            await _one(send, file, result)
            done(file)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(parallel, len(files))):
            group.create_task(work())
    return result


async def _one(send: Callable[[], Awaitable[bool]], file: folder.File, result: Result) -> None:
    try:
        replaced = await _patiently(_wait, send)
    except errors.JervisError as error:
        result.away |= isinstance(error, errors.Operational)
        result.failed[file.title] = error.message
    except OSError as error:
        result.failed[file.title] = f"it cannot be read: {error.strerror}"
    else:
        (result.replaced if replaced else result.new).append(file.title)


async def _send(
    kb: client.Client, owner: scope.Scope, file: folder.File, kind: str, metadata: Mapping[str, str | list[str]]
) -> bool:
    text = await asyncio.to_thread(file.text)
    if text is None:
        raw = await asyncio.to_thread(file.path.read_bytes)
        return (
            await kb.learning.file(owner, raw, filename=file.path.name, source_urn=file.urn, metadata=metadata)
        ).replaced
    if not text.strip():
        raise errors.Permanent("it has no visible character")
    request = api.IngestRequest(
        scope=owner,
        source_urn=file.urn,
        kind=kind,
        title=file.title,
        content=text,
        observed_at=file.modified_at,
        metadata={**metadata},
    )
    reply = await kb.learning.index(request)
    if reply.superseded_by is not None:
        # A file can come back with an older date (mv, tar): what the folder has now is the newer version.
        reply = await kb.learning.index(request.model_copy(update={"observed_at": None}))
    return reply.replaced


def _wait(error: Exception) -> bool | float:
    """Whether to try again what is busy or away, or after how many seconds."""
    retry_after = error.retry_after if isinstance(error, errors.Operational) else None
    return min(retry_after, _LONGEST_WAIT) if retry_after else isinstance(error, errors.Operational)
