"""Every setting of the sources process. Prefix JERVIS_SOURCES_; durations are in seconds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints
from pydantic_settings import BaseSettings, SettingsConfigDict

from crds import addresses

PREFIX = "JERVIS_SOURCES_"
HostName = Annotated[
    str, StringConstraints(to_lower=True, min_length=1, max_length=253, pattern=f"^({addresses.HOST_NAME})$")
]


class Release(BaseSettings):
    """What the release itself sets: the chart fills these from its other values, or leaves them to processes outside a
    cluster."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True, use_attribute_docstrings=True)

    identity: str = ""
    """Name of the pod: who has a Connection."""
    release: str = ""
    """NAMESPACE/LEASE of the operator whose Connections are polled; empty: those of every release in the database."""
    kubeconfig: str | None = None
    """Path; by default the pod's service account, else ~/.kube/config."""
    kb_url: str = "http://jervis-kb-write:8080"
    kb_token: Annotated[str, Field(repr=False)] = ""
    """Bearer token of a knowledge base that asks for one."""
    router_url: str = "http://jervis-router:11430"
    router_token_file: str = ""
    """Path of the token for a router that asks for one."""
    correction_model: str = ""
    """Model that corrects names and terms in transcripts of meetings; empty: they are not corrected."""
    correction_num_ctx: Annotated[int, Field(ge=1024)] | None = None
    """Its context window in tokens; None: the GpuBackend's."""
    mongodb_uri: Annotated[str, Field(repr=False)] = "mongodb://localhost:27017"
    mongodb_database: str = "jervis"
    claim_seconds: Annotated[float, Field(ge=3)] = 60
    """Seconds after which the Connections of a pod that ended without a word are polled by another."""
    loopback: bool = False
    """Sources may be at a loopback address: for a process outside of a cluster."""
    workspace: str = "/var/lib/jervis/git"
    """Directory of the clones of Git Connections."""
    run_token_keys: str = ""
    """Folder with the keys that verify run tokens (`contracts.tokens.keyring`). Empty: no run may call the API."""
    live_runs_url: str = ""
    """Where the operator says which runs there are. Empty: a token is good until it expires, also after its run."""
    tokens_file: str = ""
    """File of the bearer tokens that open the API (`contracts.tokens.token_file`). Empty: no token but a run's does."""
    api_host: str = "0.0.0.0"  # noqa: S104  # a pod's Service
    api_port: Annotated[int, Field(ge=1, le=65535)] = 8080
    metrics_host: str = "0.0.0.0"  # noqa: S104  # a pod's probe and scrape endpoint
    metrics_port: Annotated[int, Field(ge=1, le=65535)] = 9090


class Settings(Release):
    """What the chart offers as `sources.settings`, by the same names in camel case and with these texts. Read once by
    `sources.__main__`."""

    upload_days: Annotated[float, Field(ge=0.1, le=3650)] = 7
    """Days after which a meeting is forgotten whose upload got no new part."""
    orphaned_days: Annotated[float, Field(ge=0.1, le=3650)] = 7
    """Days after which meetings are forgotten, with recordings and transcripts, whose Connection is gone."""
    recording_namespace_bytes: Annotated[int, Field(ge=1 << 20)] = 100 << 30
    """Bytes of all recordings of the meetings of one namespace together; more are refused."""
    at_once: Annotated[int, Field(ge=1, le=256)] = 8
    """Connections that a pod works on at once."""
    idle_connections: Annotated[int, Field(ge=0, le=1000)] = 50
    """Mailboxes that a pod waits at for news by IMAP's IDLE; 0: all are asked at their interval alone."""
    sweep_seconds: Annotated[float, Field(ge=1)] = 3600
    """Seconds between two looks for items that left their source."""
    plaintext: bool = False
    """Allow imap:// and pop3:// without TLS, and a login at http:// hosts: the password or token travels readable."""
    allowed_hosts: Annotated[tuple[HostName, ...], Field(max_length=500)] = ()
    """Hosts that Connections may name, in small letters; *.example.com for all below it. Empty: every host."""
    git_clone_bytes: Annotated[int, Field(ge=1 << 20)] = 2 << 30
    """Bytes of the clone of a Git Connection; a larger repository is not read."""
    git_workspace_bytes: Annotated[int, Field(ge=1 << 20)] = 8 << 30
    """Bytes of all clones together, less than sources.workspace has; a namespace gets at most twice what is free."""
    git_seconds: Annotated[float, Field(gt=0)] = 3600
    """Seconds that one transfer from a Git server may last."""
    push_bundle_bytes: Annotated[int, Field(ge=1024, le=256 << 20)] = 32 << 20
    """Bytes of the commits that a run pushes at once."""
    effect_seconds: Annotated[float, Field(ge=1, le=600)] = 90
    """Seconds for one effect of a run on a Connection; another pod takes it over after twice that time."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least important line that is logged."""
