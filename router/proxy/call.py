"""One client request, read and understood."""

from __future__ import annotations

from dataclasses import dataclass

from crds.gpubackend import Capability
from router.priority import Level
from router.proxy import rewrite
from router.proxy.answer import Answer
from router.proxy.message import Request
from router.proxy.paths import EMBEDDING, MODEL_PREFIX, Kind

# A member of an enumeration is looked up by a function of the standard library, each time (Python 3.11).
_INFERENCE = Kind.INFERENCE
_METERED, _REPEATABLE = (Kind.INFERENCE, Kind.OTHER), (Kind.INFERENCE, Kind.ABOUT_MODEL)


@dataclass(slots=True)
class Call:
    """What the way of a request needs to know of it. The request's body is dropped once an answer has begun."""

    request: Request
    path: str
    kind: Kind
    request_id: str
    asked: str
    """The model as the client spells it, empty when it names none."""
    model: str
    """Its normalised name."""
    level: Level
    streams: bool
    arrived: float
    """Monotonic seconds."""
    client: str = ""
    """Who asks, as far as fairness and ceilings are concerned."""
    images: bool = False
    """It shows the model pictures."""
    user: bool = False
    """A P0 request that no Background run makes: a person waits."""
    tools: bool = False
    """It offers the model tools to call."""
    outline: rewrite.Outline | None = None
    """Where the values of a large body stand that the router may have to change."""
    session: int = 0
    """The conversation that it belongs to, see `affinity.session`."""
    folded: bool = False
    """Its body spells the field `model` in other letters, which Go's JSON takes for it and Python's does not."""
    internal: bool = False
    """It is of Jervis's own, see `hygiene.internal`."""
    suspect: tuple[bytes, ...] = ()
    """The keys of `quarantine` under which deaths of it, or of others like it, are kept."""
    trial: int = 0
    """How many deaths its form had when `quarantine` let it through all the same; 0: it did not."""
    early: Answer | None = None
    """The answer whose head was sent before there was one, see `signs`."""

    @property
    def metered(self) -> bool:
        """Takes a slot of its model."""
        return self.kind in _METERED and bool(self.model)

    @property
    def ollama(self) -> bool:
        """Can only an Ollama server answer it? So also a question about a model, which the router knows of others."""
        return self.folded or self.path.startswith("/api/") or self.path.startswith(MODEL_PREFIX)

    @property
    def need(self) -> Capability | None:
        """What its backend must be able to do."""
        if self.kind is not _INFERENCE:
            return None
        if self.path in EMBEDDING:
            return Capability.EMBED
        return Capability.VISION if self.images else Capability.GENERATE

    @property
    def repeatable(self) -> bool:
        """May be sent twice as long as no byte of an answer has reached the client."""
        return self.kind in _REPEATABLE or self.request.reading
