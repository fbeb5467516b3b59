"""The document at `/router/status`: what an operator (the program and the person) wants to know at a glance."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Wire(BaseModel):
    # Unknown fields are ignored on reading: a client may be older than the router it asks.
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class Backend(_Wire):
    """One GpuBackend as the router sees it now."""

    name: str
    kind: str = Field(description="GPU or CPU")
    url: str = Field(description="without user information")
    healthy: bool
    reason: str = Field(default="", description="why it is not healthy, empty when it is")
    draining: bool = Field(default=False, description="takes no new requests")
    circuit: str = Field(description="Closed, Open or HalfOpen")
    in_flight: int = Field(description="requests running on it now")
    num_parallel: int = Field(description="requests allowed at once per model")
    models: list[str] = Field(description="models it can serve, normalised names")
    loaded: list[str] = Field(description="models in its memory at the last probe")
    version: str = ""


class Queue(_Wire):
    """Requests that wait in the router for a slot."""

    waiting: int
    by_priority: dict[str, int] = Field(description="P0..P3 -> waiting requests")
    oldest_seconds: float = Field(description="age of the request that waits longest, 0 when none does")


class Status(_Wire):
    """`lastP0` is when the last P0 request arrived (UTC), null when none has since the router started."""

    backends: list[Backend]
    queue: Queue
    last_p0: datetime | None = Field(alias="lastP0", default=None)
    draining: bool = False
