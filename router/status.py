"""The document at `/router/status`: what an operator (the program and the person) wants to know at a glance."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from crds import modelcheck


class Wire(BaseModel):
    # Unknown fields are ignored on reading: a client may be older than the router it asks.
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class Loaded(Wire):
    """One model in a backend's memory, as the last probe saw it."""

    name: str
    bytes: int = Field(description="memory it takes")
    vram_bytes: int = Field(description="of which on the GPU; less than bytes means that it runs partly on the CPU")


class SetState(Wire):
    """One model set of a backend."""

    name: str
    models: list[str]
    state: str = Field(description="Loaded, Changing (on its way in) or Out")


class Reservation(Wire):
    """Who has a GPU for itself."""

    owner: str = Field(description="who announced; P0 when it came with a P0 request; empty where no token is needed")
    model_set: str
    ready: bool = Field(description="its models are loaded")
    seconds_left: float


class Running(Wire):
    """Requests that run on a backend, by model and priority."""

    model: str
    priority: str
    count: int


class Backend(Wire):
    """One GpuBackend as the router sees it now."""

    name: str
    kind: str = Field(description="GPU or CPU")
    engine: str = Field(default="Ollama", description="Ollama, or OpenAI: a server that takes requests to /v1 alone")
    url: str = Field(description="without user information")
    healthy: bool
    reason: str = Field(default="", description="why it is not healthy, empty when it is")
    draining: bool = Field(default=False, description="takes no new requests")
    circuit: str = Field(description="Closed, Open or HalfOpen")
    models_failing: list[str] = Field(
        default=[], description="models whose own circuit is open: their requests failed in a row, the backend works"
    )
    in_flight: int = Field(description="requests running on it now")
    num_parallel: int = Field(description="requests allowed at once per model")
    models: list[str] = Field(description="models it can serve, normalised names")
    loaded: list[str] = Field(description="models in its memory at the last probe")
    version: str = ""
    vram_bytes: int | None = Field(default=None, description="the GPU's memory as the GpuBackend states it")
    memory: list[Loaded] = Field(default=[], description="what is in its memory, with sizes")
    model_sets: list[SetState] = []
    reservation: Reservation | None = None
    running: list[Running] = []
    swaps: int = Field(default=0, description="changes of model sets since the router started")
    last_user_p0: datetime | None = Field(
        alias="lastUserP0", default=None, description="the last P0 request given to it that no Background run made"
    )


class Waiter(Wire):
    """One request in the queue."""

    model: str
    priority: str
    client: str
    waited_seconds: float
    preempted: int = Field(default=0, description="how often it gave way to a more urgent request")


class Queue(Wire):
    """Requests that wait in the router for a slot."""

    waiting: int
    by_priority: dict[str, int] = Field(description="P0..P3 -> waiting requests")
    oldest_seconds: float = Field(description="age of the request that waits longest, 0 when none does")
    first: list[Waiter] = Field(default=[], description="the first hundred by level and arrival")


class Status(Wire):
    """`lastP0` is when the last P0 request arrived (UTC), null when none has since the router started."""

    backends: list[Backend]
    queue: Queue
    last_p0: datetime | None = Field(alias="lastP0", default=None)
    last_user_p0: datetime | None = Field(
        alias="lastUserP0", default=None, description="the last P0 request that no Background run made"
    )
    draining: bool = False
    active: bool = Field(default=True, description="false on a router that stands by for another one")
    models: modelcheck.Report = Field(
        default=modelcheck.Report(), description="the model of each role, checked on each backend"
    )
