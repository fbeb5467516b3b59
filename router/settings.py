"""Everything that can be set, from the environment: `JERVIS_ROUTER_*` and `GPU_BACKENDS`.

Read once, in `__main__`; nothing else looks at the environment.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

Seconds = Annotated[float, Field(gt=0)]


class Settings(BaseSettings):
    """Durations are in seconds, sizes in bytes."""

    model_config = SettingsConfigDict(env_prefix="JERVIS_ROUTER_", extra="ignore", populate_by_name=True)

    host: str = "0.0.0.0"  # noqa: S104  # it is a service; set it to 127.0.0.1 outside a cluster
    port: Annotated[int, Field(ge=0, le=65535)] = 11430
    gpu_backends: Annotated[
        str | None, Field(validation_alias=AliasChoices("GPU_BACKENDS", "JERVIS_ROUTER_GPU_BACKENDS"))
    ] = None
    namespace: str = "jervis"
    kubeconfig: Annotated[
        str | None, Field(validation_alias=AliasChoices("JERVIS_ROUTER_KUBECONFIG", "KUBECONFIG"))
    ] = None
    max_body_bytes: Annotated[int, Field(ge=1024)] = 64 << 20
    max_buffered_bytes: Annotated[int, Field(ge=1024)] = 1 << 30
    max_waiting: Annotated[int, Field(ge=1)] = 20_000
    connect_seconds: Seconds = 5.0
    first_byte_seconds: Seconds = 330.0
    whole_answer_seconds: Seconds = 3600.0
    between_chunks_seconds: Seconds = 120.0
    client_stall_seconds: Seconds = 60.0
    probe_interval_seconds: Seconds = 2.0
    probe_timeout_seconds: Seconds = 2.0
    circuit_failures: Annotated[int, Field(ge=1)] = 5
    circuit_pause_seconds: Seconds = 5.0
    drain_delay_seconds: Annotated[float, Field(ge=0)] = 0.0
    drain_seconds: Annotated[float, Field(ge=0)] = 600.0
    log_level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"
