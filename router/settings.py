"""Everything that can be set, from the environment: `JERVIS_ROUTER_*` and `GPU_BACKENDS`.

Read once, in `__main__`; nothing else looks at the environment.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from crds import modelroles, priority
from router.aliases import Aliases
from router.observer import Wanted

Seconds = Annotated[float, Field(gt=0)]


def _ceiling(word: object) -> priority.Priority:
    level = priority.parse(word) if isinstance(word, str) else None
    if level is None:
        raise ValueError("is no priority: P0, P1, P2 or P3")
    return level


Ceiling = Annotated[priority.Priority, BeforeValidator(_ceiling)]


def _usable(given: dict[str, str]) -> dict[str, str]:
    Aliases(given)
    return given


ExtraPath = Annotated[str, Field(pattern=r"^/(api|v1)/[A-Za-z0-9/_.-]+$")]


class Settings(BaseSettings):
    """Durations are in seconds, sizes in bytes."""

    model_config = SettingsConfigDict(env_prefix="JERVIS_ROUTER_", extra="ignore", populate_by_name=True)

    host: str = ""
    """Empty for every address of this machine, IPv6 included; set it to 127.0.0.1 outside a cluster."""
    port: Annotated[int, Field(ge=0, le=65535)] = 11430
    gpu_backends: Annotated[
        str | None, Field(validation_alias=AliasChoices("GPU_BACKENDS", "JERVIS_ROUTER_GPU_BACKENDS"))
    ] = None
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
    secrets_every_seconds: Seconds = 60.0
    lease: str = ""
    address: str = ""
    handover_seconds: Seconds = 30.0
    max_body_bytes: Annotated[int, Field(ge=1024)] = 64 << 20
    max_buffered_bytes: Annotated[int, Field(ge=1024)] | None = None
    max_connections: Annotated[int, Field(ge=1)] | None = None
    memory_limit_bytes: Annotated[int, Field(ge=1 << 20)] | None = None
    allowed_hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    extra_paths: tuple[ExtraPath, ...] = ()
    anonymous_ceiling: Ceiling | None = None
    max_waiting: Annotated[int, Field(ge=1)] = 20_000
    max_waiting_per_client: Annotated[int, Field(ge=1)] = 10_000
    deadline_p0_seconds: Seconds = 600.0
    deadline_p1_seconds: Seconds = 900.0
    deadline_p2_seconds: Seconds = 1800.0
    deadline_auto_seconds: Seconds = 1800.0
    deadline_p3_seconds: Seconds = 3600.0
    ageing_p0_seconds: Seconds = 5.0
    ageing_p1_seconds: Seconds = 30.0
    ageing_p2_seconds: Seconds = 120.0
    ageing_auto_seconds: Seconds = 240.0
    ageing_p3_seconds: Seconds = 600.0
    ageing_every: Annotated[int, Field(ge=1)] = 4
    affinity_requests: Annotated[float, Field(ge=0)] = 2.0
    """A conversation stays on its backend while that runs at most so many requests more than another; 0: never."""
    set_residence_seconds: Annotated[float, Field(ge=0)] = 30.0
    load_seconds: Seconds = 330.0
    own_parameters: bool = True
    backend_loopback: bool = False
    """A GpuBackend may be at a loopback address: for a router outside of a cluster."""
    connect_seconds: Seconds = 5.0
    first_byte_seconds: Seconds = 330.0
    whole_answer_seconds: Seconds = 3600.0
    embedding_seconds: Seconds = 600.0
    between_chunks_seconds: Seconds = 120.0
    cpu_first_byte_seconds: Seconds = 1800.0
    cpu_between_chunks_seconds: Seconds = 600.0
    hold_seconds: Annotated[float, Field(ge=0)] = 900.0
    """The longest hold of a GPU by a request of Jervis's own, from the first byte of its answer on; 0: no bound."""
    foreign_hold_seconds: Annotated[float, Field(ge=0)] = 0.0
    """The same for all other clients."""
    progress_seconds: Seconds = 15.0
    """Silence after which a stream whose client asks for it gets a sign of life."""
    progress_for_all: bool = False
    """Streams of /v1 get them without asking."""
    client_stall_seconds: Seconds = 60.0
    client_read_seconds: Seconds = 30.0
    client_bytes_per_second: Annotated[float, Field(gt=0)] = 16_384.0
    client_idle_seconds: Seconds = 300.0
    probe_interval_seconds: Seconds = 2.0
    probe_timeout_seconds: Seconds = 2.0
    circuit_failures: Annotated[int, Field(ge=1)] = 5
    circuit_pause_seconds: Seconds = 5.0
    quarantine_seconds: Annotated[float, Field(ge=0)] = 3600.0
    """For so long a request that ended runners is refused; 0: never."""
    restart_grace_seconds: Annotated[float, Field(ge=0)] = 30.0
    drain_delay_seconds: Annotated[float, Field(ge=0)] = 0.0
    drain_seconds: Annotated[float, Field(ge=0)] = 600.0
    aliases: Annotated[dict[str, str], AfterValidator(_usable)] = {}
    """Models by other names for them."""
    roles: tuple[modelroles.Assigned, ...] = ()
    """What the release uses models for, and the windows that it asks for."""
    request_log: Wanted = Wanted.OFF
    request_log_rate: Annotated[float, Field(ge=0, le=1)] = 0.01
    usage_config_map: str = ""
    """A ConfigMap that exists, where usage is kept; empty keeps it in memory alone."""
    usage_every_seconds: Seconds = 30.0
    tracing: bool = False
    log_level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"

    @property
    def deadlines(self) -> tuple[float, float, float, float, float]:
        """Seconds in the queue by level: P0, P1, P2, Auto, P3."""
        return (
            self.deadline_p0_seconds,
            self.deadline_p1_seconds,
            self.deadline_p2_seconds,
            self.deadline_auto_seconds,
            self.deadline_p3_seconds,
        )

    @property
    def ageing(self) -> tuple[float, float, float, float, float]:
        """Seconds until a request goes first, by level: P0, P1, P2, Auto, P3."""
        return (
            self.ageing_p0_seconds,
            self.ageing_p1_seconds,
            self.ageing_p2_seconds,
            self.ageing_auto_seconds,
            self.ageing_p3_seconds,
        )
