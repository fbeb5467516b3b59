"""How far a new embedding model has come."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from contracts.api import message
from kb.api.words import Name

ReindexState = Literal["Preparing", "Copying", "Switched", "Dropping", "Done"]


class Reindex(message.Reply):
    """A reindex from the embedding model `before` into `model`.

    Preparing   the index of `before` serves; `model` has not answered yet
    Copying     the index of `before` serves; chunks and sentences are embedded by `model`
    Switched    the index of `model` is whole and serves; that of `before` is kept up to date
    Dropping    the index of `before` goes when no process uses it any more
    Done        the index of `before` is gone, and its name can be taken out of the settings

    Counts are of the present pass, which is repeated until one finds nothing to copy: `chunks` that the old index
    holds, those `checked`, the `copied` chunks and sentences, documents that could not be copied (`left`), and chunks
    of the graph that are `lost`: neither index has their text, or `model` refuses their document. `reason` says what it
    waits for, "" for nothing.
    """

    state: ReindexState
    before: str
    model: str
    started_at: AwareDatetime
    switched_at: AwareDatetime | None = None
    finished_at: AwareDatetime | None = None
    passes: int = 0
    clients: int = 0
    clients_done: int = 0
    chunks: int = 0
    checked: int = 0
    copied: int = 0
    left: int = 0
    lost: int = 0
    reason: str = ""
    drop_asked: bool = False


class Reindexes(message.Reply):
    """The latest reindex, none where the embedding model was never changed by one."""

    reindexes: list[Reindex]


class ReindexDrop(message.Request):
    """The index of the model before is not needed any more. `by` says who decided."""

    by: Name
