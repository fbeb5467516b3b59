"""Every setting of the sources process. Prefix JERVIS_SOURCES_; durations are in seconds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "JERVIS_SOURCES_"


class Settings(BaseSettings):
    """Read once by `controllers.sources.__main__`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    identity: str = ""
    """Name of the pod: who has a Connection."""
    kubeconfig: str | None = None
    """Path; by default the pod's service account, else ~/.kube/config."""
    kb_url: str = "http://jervis-kb-write:8080"
    kb_token: Annotated[str, Field(repr=False)] = ""
    """Bearer token of a knowledge base that asks for one."""
    mongodb_uri: Annotated[str, Field(repr=False)] = "mongodb://localhost:27017"
    mongodb_database: str = "jervis"
    at_once: Annotated[int, Field(ge=1, le=256)] = 8
    """Connections that are worked on at once."""
    idle_connections: Annotated[int, Field(ge=0, le=1000)] = 50
    """Mailboxes that a process waits at for news by IDLE; 0: all are asked at their interval alone."""
    claim_seconds: Annotated[float, Field(ge=3)] = 60
    """After which the Connections of a process that ended without a word are polled by another."""
    sweep_seconds: Annotated[float, Field(ge=1)] = 3600
    """Between two looks for items that left their source."""
    plaintext: bool = False
    """Allow imap:// and pop3:// servers without TLS: the password travels readable."""
    request_timeout: Annotated[float, Field(gt=0)] = 10
    """Of the Kubernetes API."""
    kb_timeout: Annotated[float, Field(gt=0)] = 60
    metrics_host: str = "0.0.0.0"  # noqa: S104  # a pod's probe and scrape endpoint
    metrics_port: Annotated[int, Field(ge=1, le=65535)] = 9090
    log_level: Literal["debug", "info", "warning", "error"] = "info"
