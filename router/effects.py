"""What the scheduler wants done: plain data. `router.dispatch` carries it out and reports what came of it.

Dispatch, Refuse    wake a waiting request
Cancel              a running request gives way to a more urgent one (preemption)
Load, Unload        a model of a GPU whose memory the router owns; answered with `loaded` and by /api/ps
Announced           a reservation is ready, or will not be
WriteStatus         what the GpuBackend's status should say
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from router.waiting import SlotRequest


class Reason(StrEnum):
    """Why a request is refused."""

    NO_BACKEND = "NoBackend"
    UNAVAILABLE = "Unavailable"
    UNKNOWN_MODEL = "UnknownModel"
    OTHER_API = "OtherApi"
    """Only OpenAI servers have the model, and it was asked for by /api."""
    INCAPABLE = "Incapable"
    EXHAUSTED = "Exhausted"
    QUEUE_FULL = "QueueFull"
    CLIENT_QUEUE_FULL = "ClientQueueFull"
    DEADLINE = "Deadline"
    STEPPED_DOWN = "SteppedDown"
    """The router does not decide any more, or goes."""


class Dispatch(NamedTuple):
    """The request may run on `backend` until it is released."""

    request: SlotRequest
    backend: str


class Refuse(NamedTuple):
    """The request cannot be served now (or, for UNKNOWN_MODEL and INCAPABLE, as it is)."""

    request: SlotRequest
    reason: Reason


class Cancel(NamedTuple):
    """End the request at `backend`. Unless `visible`, no byte of an answer has been sent: it is offered again."""

    request: SlotRequest
    backend: str
    visible: bool


class Load(NamedTuple):
    """Load a model by a request that no client owns. `num_ctx` None leaves the server's own; `keep_alive` in
    seconds."""

    backend: str
    model: str
    num_ctx: int | None
    keep_alive: int


class Unload(NamedTuple):
    """Let the server unload a model that is not used any more."""

    backend: str
    model: str


class Announced(NamedTuple):
    """The reservation `lease_id` is ready; `error` says why it never will be."""

    lease_id: str
    error: str = ""


class Held(NamedTuple):
    """A reservation as a status shows it. `until` in seconds of the scheduler's clock."""

    owner: str
    lease_id: str
    until: float
    model_set: str


class WriteStatus(NamedTuple):
    """`sets` are the model sets that are (or are being) loaded, `held` the reservation in force."""

    backend: str
    sets: tuple[str, ...]
    held: Held | None


Effect = Dispatch | Refuse | Cancel | Load | Unload | Announced | WriteStatus
