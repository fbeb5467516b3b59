"""What every exchange stands on: made once by the composition root."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from router import dispatch, metrics
from router.backends import book
from router.proxy import stall
from router.proxy.budget import Budget
from router.proxy.pool import Pools
from router.proxy.quarantine import Quarantine
from router.proxy.signs import Signs


async def no_successor() -> str:
    """There is no other router."""
    return ""


def _always() -> bool:
    return True


def _unnoted(backend: str) -> None:
    """Nothing is kept of it."""


@dataclass(frozen=True, slots=True)
class Parts:
    """`now` is monotonic seconds, `draining` tells whether the process is going, `successor` where the router answers
    that decides instead of this one (`ha.Candidate.successor`)."""

    book: book.Book
    dispatcher: dispatch.Dispatcher
    pools: Pools
    watch: stall.Watch
    metrics: metrics.Metrics
    limits: stall.Limits
    budget: Budget
    quarantine: Quarantine
    numbers: Iterator[int]
    now: Callable[[], float]
    draining: Callable[[], bool]
    successor: Callable[[], Awaitable[str]] = no_successor
    deciding: Callable[[], bool] = _always
    """Whether this router decides (again)."""
    own_parameters: bool = True
    """Set keep_alive and num_ctx of models that a GpuBackend owns."""
    placed: Callable[[str], None] = _unnoted
    """Called with the name of a backend that a user's P0 request is given to."""
    signs: Signs | None = None
    """Tells clients that their streams wait."""
    guarded: bool = False
    """Clients show the router a token, which is none of the backends' business."""
