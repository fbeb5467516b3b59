"""The settings of a knowledge base process, read once by `kb.__main__` from `JERVIS_KB_*`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import AnyHttpUrl, Field, IPvAnyNetwork, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from crds.values import STORED_BYTES


class Settings(BaseSettings):
    """Sizes in characters or bytes as named, times in seconds."""

    model_config = SettingsConfigDict(env_prefix="JERVIS_KB_", extra="ignore", frozen=True)

    # A pod is reached on its own address; where that is too wide, set 127.0.0.1.
    host: str = "0.0.0.0"  # noqa: S104 -- see above
    port: int = Field(default=8080, ge=0, le=65535)
    mode: Literal["all", "read", "write"] = "all"
    data_dir: Path = Path("/var/lib/jervis/kb")
    # One span per request and per stage, sent as the standard OTEL_ variables say.
    tracing: bool = False
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    router_url: AnyHttpUrl = AnyHttpUrl("http://jervis-router:11430")
    # Where a token for the router stands; read each time, because the kubelet renews it. Empty: the router wants none.
    router_token_file: str = ""
    weaviate_url: AnyHttpUrl = AnyHttpUrl("http://weaviate:8080")
    weaviate_grpc_port: int = Field(default=50051, ge=1, le=65535)
    # Keeps installations apart that share one Weaviate.
    index: str = ""
    mongodb_uri: SecretStr = SecretStr("mongodb://mongodb:27017")
    mongodb_database: str = "jervis"

    # Empty: the graph is a SQLite file in data_dir.
    arango_url: str = ""
    arango_database: str = "jervis"
    arango_username: str = "root"
    arango_password: SecretStr = SecretStr("")

    extract_model: str = "qwen2.5:7b"
    extract_num_ctx: int | None = Field(default=None, ge=512)
    extract_parallel: int = Field(default=4, ge=1, le=64)
    embed_model: str = "qwen3-embedding:8b"

    chunk_chars: int = Field(default=4000, ge=200, le=40_000)
    chunk_overlap: int = Field(default=200, ge=0)
    max_chars: int = Field(default=4_000_000, ge=1)
    max_body_bytes: int = Field(default=16 << 20, ge=1024)
    max_content_bytes: int = Field(default=STORED_BYTES, ge=1024)
    max_answers: int = Field(default=100_000, ge=0)

    lane_width: int = Field(default=5, ge=1)
    lane_waiting: int = Field(default=200, ge=0)

    queue_limit: int = Field(default=200_000, ge=1)
    queue_client_limit: int = Field(default=50_000, ge=1)
    queue_workers: int = Field(default=2, ge=1, le=64)
    queue_urgent_workers: int = Field(default=2, ge=1, le=64)

    # Empty: whoever reaches the service may use it. Otherwise a YAML or JSON file of tokens with their scopes.
    tokens_file: str = ""
    # Empty: run tokens are unknown. Otherwise the folder of their keys (crds.keyring), read again when it changes.
    run_token_keys: str = ""
    # Requests of one client a second, on average and at once; 0 is no limit.
    client_rate: float = Field(default=0.0, ge=0)
    client_burst: int = Field(default=100, ge=1)

    # Empty: files that need Tika are refused.
    tika_url: str = ""
    tika_seconds: float = Field(default=30.0, gt=0)
    max_file_bytes: int = Field(default=32 << 20, ge=1024)
    vision_model: str = "qwen3-vl:8b"
    # Networks that /crawl may read though they are not public, as CIDR.
    crawl_networks: list[IPvAnyNetwork] = Field(default_factory=list)
    crawl_page_bytes: int = Field(default=4 << 20, ge=1024)
    crawl_page_seconds: float = Field(default=20.0, gt=0)

    # Stored content that nobody refers to and nobody has used for so long is deleted; 0 keeps it for ever.
    content_keep_days: float = Field(default=180.0, ge=0)
    sweep_interval: float = Field(default=3600.0, gt=0)

    session_days: float = Field(default=7.0, gt=0)
    session_entries: int = Field(default=50, ge=1, le=1000)

    alpha: float = Field(default=0.4, ge=0, le=1)
    hops: int = Field(default=2, ge=0, le=3)

    # Seconds between two looks for scopes that are to be erased; another writing process closes them that late.
    erasure_interval: float = Field(default=5.0, gt=0)
    reconcile_interval: float = Field(default=3600.0, gt=0)
    recovery_interval: float = Field(default=30.0, gt=0)
    recovery_patience: float = Field(default=120.0, ge=0)
    shutdown_seconds: float = Field(default=20.0, ge=0)

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if self.chunk_overlap >= self.chunk_chars // 2:
            raise ValueError("JERVIS_KB_CHUNK_OVERLAP must be under half of JERVIS_KB_CHUNK_CHARS")
        if self.mode != "all" and not self.arango_url:
            raise ValueError(
                f"JERVIS_KB_MODE={self.mode} needs JERVIS_KB_ARANGO_URL: the embedded graph is a file that only one "
                "process can serve; use mode all, or point both halves at one ArangoDB"
            )
        return self
