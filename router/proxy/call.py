"""One client request, read and understood."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from router.priority import Level
from router.proxy.paths import Kind


@dataclass(slots=True)
class Call:
    """What the way of a request needs to know of it. The body is dropped once an answer has begun."""

    request: web.BaseRequest
    path: str
    target: str
    """Path and query exactly as the client wrote them."""
    kind: Kind
    request_id: str
    body: bytes
    has_body: bool
    asked: str
    """The model as the client spells it, empty when it names none."""
    model: str
    """Its normalised name."""
    level: Level
    streams: bool
    arrived: float
    """Monotonic seconds."""

    @property
    def metered(self) -> bool:
        """Takes a slot of its model."""
        return self.kind in (Kind.INFERENCE, Kind.OTHER) and bool(self.model)

    @property
    def repeatable(self) -> bool:
        """May be sent twice as long as no byte of an answer has reached the client."""
        return self.kind in (Kind.INFERENCE, Kind.ABOUT_MODEL) or self.request.method in ("GET", "HEAD")
