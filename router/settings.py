"""Everything that can be set, from the environment: `JERVIS_ROUTER_*` and `GPU_BACKENDS`.

Read once, in `__main__`; nothing else looks at the environment.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, WithJsonSchema
from pydantic_settings import BaseSettings, SettingsConfigDict

from contracts import browsers
from crds import modelroles, priority
from router import health
from router.aliases import Aliases
from router.observer import Wanted
from router.proxy import admission, connections, stall
from router.queue import QueueBounds

Seconds = Annotated[float, Field(gt=0)]
# Defaults stand beside what they bound.
_QUEUE = QueueBounds()
_SILENCE = stall.Limits()
_CLIENT = connections.ConnectionBounds()


def _ceiling(word: object) -> priority.Priority:
    level = priority.parse(word) if isinstance(word, str) else None
    if level is None:
        raise ValueError("is no priority: P0, P1, P2 or P3")
    return level


Ceiling = Annotated[
    priority.Priority,
    BeforeValidator(_ceiling),
    WithJsonSchema({"type": "string", "enum": [level.name for level in priority.Priority]}),
]
HostPattern = Annotated[str, Field(pattern=browsers.NAME)]
Origin = Annotated[str, Field(pattern=browsers.ORIGIN)]


def _usable(given: dict[str, str]) -> dict[str, str]:
    Aliases(given)
    return given


UNIQUE = Field(json_schema_extra={"uniqueItems": True})
ExtraPath = Annotated[str, Field(pattern=r"^/(api|v1)/[A-Za-z0-9/_.-]+$")]


class Release(BaseSettings):
    """What the release itself sets: the chart fills these from its other values, or leaves them to processes outside a
    cluster."""

    model_config = SettingsConfigDict(
        env_prefix="JERVIS_ROUTER_", extra="ignore", populate_by_name=True, use_attribute_docstrings=True
    )

    host: str = ""
    """Empty for every address of this machine, IPv6 included; set it to 127.0.0.1 outside a cluster."""
    port: Annotated[int, Field(ge=0, le=65535)] = 11430
    gpu_backends: Annotated[
        str | None, Field(validation_alias=AliasChoices("GPU_BACKENDS", "JERVIS_ROUTER_GPU_BACKENDS"))
    ] = None
    """Backends as JSON, for a router outside of a cluster; None: the GpuBackends of the namespace."""
    namespace: str = "jervis"
    kubeconfig: Annotated[
        str | None, Field(validation_alias=AliasChoices("JERVIS_ROUTER_KUBECONFIG", "KUBECONFIG"))
    ] = None
    tokens_file: str | None = None
    run_token_keys: str | None = None
    live_runs_url: str = ""
    token_review: bool = False
    token_required: bool = True
    token_audiences: tuple[str, ...] = ()
    allowed_accounts: tuple[str, ...] = ()
    history_account: str = "jervis-history"
    admin_accounts: tuple[str, ...] = ()
    account_ceilings: dict[str, Ceiling] = {}
    secrets_dir: str | None = None
    lease: str = ""
    address: str = ""
    memory_limit_bytes: Annotated[int, Field(ge=1 << 20)] | None = None
    backend_loopback: bool = False
    """A GpuBackend may be at a loopback address: for a router outside of a cluster."""
    aliases: Annotated[dict[str, str], AfterValidator(_usable)] = {}
    """Models by other names for them."""
    roles: tuple[modelroles.Assigned, ...] = ()
    """What the release uses models for, and the windows that it asks for."""
    usage_config_map: str = ""
    """A ConfigMap that exists, where usage is kept; empty keeps it in memory alone."""

    # No values of the chart: tests set them in order to be fast.
    secrets_every_seconds: Seconds = 60.0
    """Seconds after which tokens of backends are read again."""
    client_stall_seconds: Seconds = _SILENCE.write
    """A client that takes nothing for so many seconds is cut off."""
    client_bytes_per_second: Annotated[float, Field(gt=0)] = _CLIENT.rate
    """Bytes a second that a request's body must come with after the first clientReadSeconds."""
    probe_interval_seconds: Seconds = health.Rounds().interval
    """Seconds between two probes of a backend."""
    probe_timeout_seconds: Seconds = health.Rounds().timeout
    """Seconds for its answer to a probe."""
    circuit_pause_seconds: Seconds = 5.0
    """Seconds of pause until one probe may try again."""

    # Nor this: callers of this repository wait as long (`crds.priority.SILENCE`).
    deadlines: tuple[Seconds, Seconds, Seconds, Seconds, Seconds] = _QUEUE.deadlines
    """Seconds after which a request that waits is refused with 408, by level: P0, P1, P2, Auto, P3."""


class Settings(Release):
    """What the chart offers as `router.settings`, by the same names in camel case and with these texts. Read once, in
    `__main__`."""

    max_body_bytes: Annotated[int, Field(ge=1024)] = admission.BodyBounds().body
    """Bytes of the largest request body."""
    max_buffered_bytes: Annotated[int, Field(ge=1024)] | None = None
    """Bytes of bodies kept at once for requests that wait; without it half of what resources.limits.memory leaves."""
    max_connections: Annotated[int, Field(ge=1)] | None = None
    """Connections of clients at once; without it as many as resources.limits.memory allows."""
    allowed_hosts: Annotated[tuple[HostPattern, ...], UNIQUE] = ()
    """Further names that clients may call the router by, such as that of a Gateway; router.ingress.host needs no entry.
    *.example.com for all below one, * for any. Needed where auth.required is false."""
    origins: tuple[Origin, ...] = browsers.OLLAMA
    """Web pages of other origins that may call, as in https://agent.example.com, and read answers (CORS); programs
    always may. * in a name stands for any characters. By default Ollama's own: pages of this machine and of
    programs on it (app://)."""
    extra_paths: Annotated[tuple[ExtraPath, ...], UNIQUE] = ()
    """Further paths below /api/ and /v1/ that any client may call; without it an administrator alone may."""
    anonymous_ceiling: Ceiling | None = None
    """The most urgent priority of callers without a token; below P0 they reserve no GPU either."""
    max_waiting: Annotated[int, Field(ge=1)] = _QUEUE.count
    """Requests that may wait; more are refused with 429."""
    max_waiting_per_client: Annotated[int, Field(ge=1)] = _QUEUE.per_client
    """Requests of one client that may wait."""
    affinity_requests: Annotated[float, Field(ge=0)] = 2.0
    """The turns of a conversation go to one backend as long as it runs at most this many requests more than another; 0
    turns that off."""
    load_seconds: Seconds = 330.0
    """Seconds for a model to be loaded."""
    own_parameters: bool = True
    """Set keep_alive, num_ctx and the other options of the runner of requests for models of a GpuBackend's model
    sets."""
    first_byte_seconds: Seconds = _SILENCE.first
    """Seconds until a backend's first byte; loading a model counts."""
    whole_answer_seconds: Seconds = _SILENCE.whole
    """Seconds for an answer that is not streamed."""
    embedding_seconds: Seconds = _SILENCE.embedding
    """Seconds for the vectors of one request."""
    between_chunks_seconds: Seconds = _SILENCE.between
    """Seconds of the longest silence within a stream."""
    cpu_first_byte_seconds: Seconds = _SILENCE.cpu_first
    """Seconds of silence of a CPU backend before its first byte."""
    hold_seconds: Annotated[float, Field(ge=0)] = 900.0
    """Seconds of the longest hold of a GPU by a request of the knowledge base, the operator or a run, from the first
    byte of its answer on; 0: no bound."""
    foreign_hold_seconds: Annotated[float, Field(ge=0)] = 0.0
    """The same for all other clients; 0: no bound."""
    progress_seconds: Seconds = 15.0
    """Seconds of silence after which a stream gets a sign of life, if its client asks for that by X-Jervis-Progress:
    true."""
    progress_for_all: bool = False
    """Streams of /v1 get signs of life without asking."""
    client_read_seconds: Seconds = _CLIENT.reading
    """Seconds for a client to send its request, for a body without progress."""
    circuit_failures: Annotated[int, Field(ge=1)] = 5
    """Failures in a row that open the circuit of a backend, or of one model on it."""
    quarantine_seconds: Annotated[float, Field(ge=0)] = 3600.0
    """Seconds for which a request that ended the runner of its model twice, alone there, is refused with 422; 0:
    never."""
    restart_grace_seconds: Annotated[float, Field(ge=0)] = 30.0
    """Seconds that requests wait for a backend that went away, before they are refused."""
    drain_seconds: Annotated[float, Field(ge=0)] = 600.0
    """Seconds that running streams may go on after SIGTERM; the chart gives ten less than
    terminationGracePeriodSeconds."""
    request_log: Wanted = Wanted.OFF
    """Inference requests that are written to standard output, one JSON line each: off, errors (failures and refusals),
    sampled (these and requestLogRate of the others) or all."""
    request_log_rate: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Share of the requests that went well which requestLog: sampled writes."""
    tracing: bool = False
    """Send OpenTelemetry spans of inference requests, to the collector that the standard OTEL_ variables in extraEnv
    name."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least important line that is logged."""
