"""Every setting of the operator, read once by the composition root. Prefix JERVIS_OPERATOR_."""

from __future__ import annotations

import ipaddress
import json
import re
from datetime import timedelta
from email.utils import parseaddr
from typing import Annotated, Any, Literal

import pydantic
import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from controllers import clients as own
from controllers.admission import Admission, Annotations, Limits
from controllers.archive import reconcile as archivist
from controllers.archive import retention, sweep
from controllers.clusterstate import reading as clusterstate
from controllers.codeanalysis import job as analyses
from controllers.gpubackend import contexts
from controllers.meetings import job as transcriptions
from controllers.notices import mailer
from controllers.notices import reconcile as notifier
from controllers.outcomes import reconcile as reporter
from controllers.pendingtask import job, observed
from controllers.sandbox import job as sandboxes
from crds import addresses, approvals, errors, flags, pendingtask, scope, tools, values
from crds.permits import Bound
from kube import lease

Names = Annotated[tuple[str, ...], NoDecode]
Name = Annotated[str, Field(min_length=1, max_length=253)]
Team = Annotated[tuple[Name, ...], Field(json_schema_extra={"uniqueItems": True})]
Shape = dict[str, Any]
"""An object of the Kubernetes API, which judges it when a run is created."""
ClientId = Annotated[str, Field(pattern=scope.IDENTIFIER, max_length=63)]
PREFIX = "JERVIS_OPERATOR_"
# Defaults stand beside what they bound.
_DAY = timedelta(days=1)
_LIMITS = observed.Limits()
_TERMS = sweep.Terms()
_PERIODS = retention.Periods()


class Invalid(errors.Permanent):
    """A setting cannot be used; the message names each by its variable and key."""


class Client(BaseModel):
    """What one client has of its own; what it leaves out is as for all clients."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )

    schedule_lead_days: Annotated[float, Field(ge=0, le=3650)] | None = None
    """Instead of operator.settings.scheduleLeadDays."""
    team: Team | None = None
    """Instead of operator.settings.team."""


class EnvVar(BaseModel):
    """A Kubernetes EnvVar."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)

    name: Name
    value: str | None = None
    value_from: Shape | None = None


class NamespaceLimits(BaseModel):
    """What a namespace may have; what is left out it does not say. An empty list takes everything."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)

    types: tuple[pendingtask.Type, ...] | None = None
    clients: tuple[ClientId, ...] | None = None
    modes: tuple[pendingtask.Mode, ...] | None = None
    queue_position: bool | Annotated[int, Field(ge=1)] | None = None
    task_flags: bool | None = None
    permits: tuple[Bound, ...] | None = None

    def limits(self) -> Limits:
        """The same for decisions."""
        return Limits(self.types, self.clients, self.modes, self.queue_position, self.task_flags, self.permits)


class AdmissionLimits(BaseModel):
    """The chart's `admission.limits`, and those of single namespaces (`admission.namespaces`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limits: NamespaceLimits = NamespaceLimits()
    namespaces: dict[Name, NamespaceLimits] = Field(default_factory=dict)


class Release(BaseSettings):
    """What the release itself sets: the chart fills these from its other values, or leaves them to tests and to
    processes outside a cluster. Durations are in seconds unless the name says otherwise."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True, use_attribute_docstrings=True)

    namespace: str = "default"
    """The release's: the Lease, the GpuBackends and all runs (Jobs, pods, their Secrets) are here. Only the release's
    own people may create pods or read Secrets in it. kopf's flags (`-n`, `-A`) say which namespaces are served."""
    namespace_selector: str = ""
    """With `-A`: a label selector; only namespaces that match it, and the release's, are served."""
    admission: Annotated[AdmissionLimits | None, NoDecode] = None
    """What the chart's admission policies hold namespaces to, as JSON or YAML, for objects that no policy has seen.
    None: there are no policies, so no limits either, and the annotations of Namespaces mean nothing."""
    identity: str = ""
    """Name of the pod. Only one process runs under it at a time, so a restarted one takes its lease over at once."""
    lease_name: str = "jervis-operator"
    kubeconfig: str | None = None
    """Path; by default the pod's service account, else ~/.kube/config."""

    kb_url: str = "http://jervis-kb-write:8080"
    kb_read_url: str = ""
    """Where runs ask; `kb_url` when empty."""
    kb_token: Annotated[str, Field(repr=False)] = ""
    """Bearer token of a knowledge base that asks for one."""
    router_url: str = "http://jervis-router:11430"
    sources_url: str = ""
    """Where runs have effects on Connections; empty: the release has no sources process."""
    cluster_state_url: str = ""
    """This process's port of the history, where runs ask for the state of their namespace; empty: it is not shown."""
    cluster_state_namespaces: Names = ()
    """Namespaces whose state is shown; none: all but the release's own, where the runs of all tasks are."""
    cluster_state_log_namespaces: Names = ()
    """Those of them whose logs are shown, too; `*`: all of them."""
    transcription_engine: Literal["", "faster-whisper", "scripted"] = ""
    """What hears the words: faster-whisper, or scripted, which hears nothing and says so. Empty: recordings stay
    UPLOADED."""
    transcription_image: str = ""
    """An image with the engine in it; empty takes that of runs, which has no faster-whisper."""
    transcription_model: Annotated[str, Field(pattern="^/")] = "/models/whisper"
    """A directory in the pod with a Whisper model in CTranslate2's format."""
    transcription_at_once: Annotated[int, Field(ge=1, le=100)] = 1
    """Jobs at the same time."""
    transcription_deadline_seconds: Annotated[int, Field(ge=60, le=604_800)] = 14_400
    """Upper bound of one Job, in seconds."""
    transcription_scratch: values.Quantity = "3Gi"
    """Size of the volume that holds the recording while it is read."""
    transcription_resources: dict[str, Any] = Field(
        default_factory=lambda: {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "4Gi"}}
    )
    """Requests and limits of each Job."""
    transcription_node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels of the nodes that Jobs of transcription may use."""
    transcription_tolerations: list[Shape] = Field(default_factory=list)
    """Tolerations of the pods that transcribe."""
    transcription_volumes: list[Shape] = Field(default_factory=list)
    """Volumes of the pods that transcribe, such as the one with the model."""
    transcription_volume_mounts: list[Shape] = Field(default_factory=list)
    """Where these volumes are mounted."""
    joern_enabled: bool = False
    """Have Joern make code property graphs (Cpg); without it Overview and Structure alone are made."""
    joern_image: str = ""
    """An image with Joern in it (target joern of the Dockerfile); needed where it is enabled."""
    joern_max_jobs: Annotated[int, Field(ge=1, le=100)] = 1
    """Jobs at the same time, with Joern or without."""
    joern_memory: values.Quantity = "4Gi"
    """Memory of Joern in one Job."""
    joern_heap: Annotated[str, Field(pattern=r"^[1-9][0-9]*[kmgKMG]$")] = "3g"
    """Heap of Joern's JVM, such as 3g: less than its memory."""
    joern_seconds: Annotated[int, Field(ge=60, le=86_400)] = 1800
    """Upper bound of one Job, in seconds."""
    joern_ad_hoc_queries: bool = False
    """Run the queries that callers of the knowledge base send (POST /api/v1/analyze/code). A query is a program:
    kb.tokens is needed."""
    sandbox_enabled: bool = False
    """Run them. Needs kb.tokens: what answers without a token answers a command as well."""
    sandbox_images: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")], Name] = Field(default_factory=dict)
    """Role -> image that a command may run in; agents name the role. /bin/sh and timeout have to be in it."""
    sandbox_max_jobs: Annotated[int, Field(ge=1, le=100)] = 2
    """Commands at the same time."""
    sandbox_seconds: Annotated[int, Field(ge=1, le=3600)] = 600
    """Upper bound of one command, in seconds."""
    sandbox_memory: values.Quantity = "2Gi"
    """Most memory of one command."""
    sandbox_cpu: Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]{1,3})?m?$")] = "1"
    """CPU of one command."""
    router_token_file: str = ""
    """Where the operator's own token for the router stands; empty for a router that wants none."""
    run_token_keys: str = ""
    """Folder with the keys that sign the runs' tokens for the knowledge base and the router
    (`contracts.tokens.keyring`). Empty: runs carry none, for a knowledge base and a router that ask for none."""
    mongodb_uri: str = "mongodb://localhost:27017"
    mongodb_secret: str = ""
    """Secret of the release's namespace from which runs take the address; empty writes `mongodb_uri` into each Job."""
    mongodb_secret_key: Annotated[str, Field(min_length=1)] = "uri"  # noqa: S105  # the name of a key, no password
    mongodb_database: str = "jervis"
    """Database of the release in MongoDB."""

    image: str = "localhost/jervis:dev"
    image_pull_policy: str = "IfNotPresent"
    job_service_account: str = "jervis-job"
    model: str = "qwen3-coder:30b"
    num_ctx: Annotated[int, Field(ge=1024)] | None = None
    """Context window of runs in tokens; the backend's when empty."""
    planner_model: str = ""
    """Model that plans Background runs; empty: they are not planned."""
    planner_num_ctx: Annotated[int, Field(ge=1024)] | None = None
    """Its context window."""
    windows: list[contexts.Window] = Field(default_factory=list)
    """Context windows that any process asks for: a GpuBackend that loads the model with less says so."""
    job_resources: dict[str, Any] = Field(
        default_factory=lambda: {"requests": {"cpu": "100m", "memory": "192Mi"}, "limits": {"memory": "1Gi"}}
    )
    job_environment: dict[str, str] = Field(default_factory=dict)
    job_flags: dict[flags.Flag, bool] = Field(default_factory=dict)
    """Feature flags of runs; one that is left out is false."""
    job_tools: tools.Chosen = tools.Tools()
    """How far the tools of agents reach."""
    job_labels: dict[str, str] = Field(default_factory=dict)
    job_annotations: dict[str, str] = Field(default_factory=dict)
    job_run_as_user: Annotated[int, Field(ge=1)] | None = 10001
    """User and group of runs; empty where the platform assigns its own."""
    job_node_selector: dict[str, str] = Field(default_factory=dict)
    job_tolerations: list[Shape] = Field(default_factory=list)
    job_affinity: Shape = Field(default_factory=dict)
    job_topology_spread_constraints: list[Shape] = Field(default_factory=list)
    job_priority_class_name: str = ""
    job_runtime_class_name: str = ""
    job_image_pull_secrets: Names = ()
    job_extra_env: list[EnvVar] = Field(default_factory=list)
    job_extra_volumes: list[Shape] = Field(default_factory=list)
    job_extra_volume_mounts: list[Shape] = Field(default_factory=list)
    job_deadline_seconds: Annotated[int, Field(ge=1)] = 3600
    """Of a task without activeDeadlineSeconds."""
    warm_pool: Annotated[int, Field(ge=0, le=100)] = 0
    """Pods that have started and wait for a run; 0: none."""
    handover_url: str = "http://jervis-operator:9091"
    """Where those pods ask this operator for their task: the address of `history_port`."""
    job_ttl_seconds: Annotated[int, Field(ge=0)] = _LIMITS.job_ttl_seconds
    """How long a Job stays after its result is recorded."""
    job_grace_seconds: Annotated[int, Field(ge=30)] = 60
    notice_mail_user: str = ""
    notice_mail_password: Annotated[str, Field(repr=False)] = ""
    """The login at the mail server; empty for none."""

    history_host: str = "0.0.0.0"  # noqa: S104  # a pod's endpoint
    history_port: Annotated[int, Field(ge=0, le=65535)] = 9091
    history_account: Name = "jervis-history"
    """ServiceAccount of each watched namespace whose tokens open that namespace's history."""
    sources: bool = False
    """A sources process polls Connections (`sources`); else they are checked only."""
    approval_expire_after: Annotated[str, Field(pattern=r"^(0s|[1-9][0-9]{0,6}[smh])$")] = approvals.NEVER
    """Time after which a request without a decision expires, for example 24h; 0s: none does."""
    approval_default: approvals.Default = _LIMITS.approval_default
    """What happens then: Reject (the run goes on without the effect) or GiveUp (the task ends in Error)."""
    probe_loopback: bool = False
    """A GPU backend may be at a loopback address: for an operator outside of a cluster."""
    connection_hosts: Names = ()
    """Hosts that Connections may name, `*.example.com` for all below it; none: every host."""
    connection_file_urls: bool = False
    """Git Connections may have a file:// URL, a path in the pod that reads it."""
    metrics_host: str = "0.0.0.0"  # noqa: S104  # a pod's probe and scrape endpoint
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = 9090

    # No values of the chart: tests set them in order to be fast.
    handover_seconds: Annotated[float, Field(gt=0)] = 30
    """Seconds that a pod of the warm pool may take to get the task of a run; then the run gets a pod of its own."""
    archive_seconds: Annotated[float, Field(gt=0)] = archivist.Pace().every
    """Seconds between two sweeps over the finished tasks, which archive and delete."""
    deletes_per_second: Annotated[float, Field(gt=0, le=1000)] = archivist.Pace().deletes_per_second
    """Deletions of finished tasks while that suffices; faster when more are due."""
    outcome_seconds: Annotated[float, Field(gt=0)] = reporter.Pace().every
    """Seconds between two searches for finished runs that were not reported to the knowledge base."""
    notice_seconds: Annotated[float, Field(gt=0)] = notifier.Pace().every
    """Seconds between two searches for events that webhooks receive."""
    wait_reason_seconds: Annotated[float, Field(gt=0)] = 60
    """A Background task that has waited for so many seconds, for a reason that has lasted as long, has it in its
    condition Dispatched."""
    stale_seconds: Annotated[float, Field(gt=0)] = _LIMITS.stale_after.total_seconds()
    """A task without a live worker goes back after so many seconds."""
    recheck_seconds: Annotated[float, Field(gt=0)] = _LIMITS.recheck.total_seconds()
    """Seconds between two looks at a waiting task."""
    resync_seconds: Annotated[float, Field(gt=0)] = 30
    """Seconds between two comparisons of what is known with a list of what there is."""
    request_timeout: Annotated[float, Field(gt=0)] = 10
    """Seconds for one request to the Kubernetes API."""
    probe_seconds: Annotated[float, Field(gt=0)] = 15
    """Seconds between two probes of a reachable GPU backend."""


class Settings(Release):
    """What the chart offers as `operator.settings`, by the same names in camel case and with these texts."""

    reserve_gpu: bool = True
    """Reserve a GPU with the router while a run has a slot that a person waits for, so that the model is loaded before
    the run asks; only where another backend is there for the others."""

    finished_ttl_seconds: Annotated[int, Field(ge=0)] = int(_TERMS.success.total_seconds())
    """Seconds that a Done or Completed task stays an object after its end, unless its spec.ttlSecondsAfterFinished says
    otherwise; its history stays in MongoDB."""
    failed_ttl_seconds: Annotated[int, Field(ge=0)] = int(_TERMS.failure.total_seconds())
    """The same for a task that ended in Error."""
    finished_per_client: Annotated[int, Field(ge=0)] = _TERMS.per_client
    """Finished objects of one client in one namespace that may stay; beyond that the oldest archived ones go before
    their time."""
    finished_total: Annotated[int, Field(ge=0)] = _TERMS.total
    """The same for all clients together: each keeps as many, and those with fewer keep all of theirs. Keep it well
    below admission.quota.pendingTasks."""
    retention_days: Annotated[float, Field(gt=0)] = _PERIODS.leftovers / _DAY
    """Days that checkpoints, memory and results of runs stay in MongoDB once their task is archived and gone."""
    deleted_days: Annotated[float, Field(gt=0)] = _PERIODS.abandoned / _DAY
    """Days that what is kept in MongoDB of a task stays that was deleted before it was archived, from the last write of
    its memory."""
    archive_days: Annotated[float, Field(gt=0)] = _PERIODS.history / _DAY
    """Days that the history knows a finished task; at least retentionDays."""
    removal_percent: Annotated[float, Field(gt=0, le=100)] = 100 * _PERIODS.share
    """A sweep that would remove more percent of the history, or of the memories of deleted tasks that another operator
    or an older release wrote, removes none of them and reports. Set 100 for a while to confirm."""
    outcomes: bool = True
    """Report the outcomes of finished runs to the knowledge base; its table decides what it stores."""

    notices: bool = True
    """Call the webhooks that hard rules name (enforce: notify)."""
    notice_networks: Names = ()
    """Networks (CIDR) whose webhooks may be called beside public addresses. Open networkPolicy.operatorEgress for
    them."""
    notice_secret_file: str = ""
    """Path of the key by which calls of webhooks are signed, of a volume in operator.extraVolumes. Empty: they are not
    signed."""

    notice_mail_server: str = ""
    """Host of the mail server (SMTP) for hard rules that name a mailto: address. Empty: no mail is sent."""
    notice_mail_port: Annotated[int, Field(ge=1, le=65535)] = 587
    """Port of the mail server."""
    notice_mail_security: mailer.Security = mailer.Security.STARTTLS
    """How the connection to the mail server is encrypted: starttls, tls from the beginning (port 465), or none, which
    allows no login."""
    notice_mail_from: str = ""
    """The From line of the mails, such as Jervis <jervis@example.com>; needed with noticeMailServer."""

    team: Annotated[Team, NoDecode] = ()
    """Names and mail addresses that count as "we" when a text assigns work to a person or team."""
    schedule_lead_days: Annotated[float, Field(ge=0, le=3650)] = own.Terms().lead / _DAY
    """A deadline further away than this is scheduled, for that many days before it."""
    clients: Annotated[dict[ClientId, Client], NoDecode] = Field(default_factory=dict)
    """What single clients have of their own instead of team and scheduleLeadDays, by clientId."""
    advance_seconds: Annotated[float, Field(ge=0, le=86_400)] = _LIMITS.advance.total_seconds()
    """Seconds before `schedule.at` (and a recurring task's next run) at which qualification begins; 0: not before its
    time."""
    catch_up_seconds: Annotated[float, Field(ge=0)] = _LIMITS.catch_up.total_seconds()
    """Seconds within which a missed run of a recurring task is made up for, once; later it is skipped with an Event."""
    idle_seconds: Annotated[float, Field(ge=0)] = _LIMITS.idle_threshold.total_seconds()
    """Background runs start only after this many seconds without a user's request; with several Ready GPUs that holds
    for the GPUs that serve users. 0: whenever a slot is free."""
    background_age_seconds: Annotated[float, Field(ge=0)] = _LIMITS.background_age.total_seconds()
    """A Background task that has waited for more seconds is taken before its place, within a bounded share; 0:
    never."""
    qualify_at_once: Annotated[int, Field(ge=1, le=1000)] = _LIMITS.qualifying_at_once
    """Qualifications at the same time."""
    unserved_days: Annotated[float, Field(ge=1, le=3650)] = 30
    """Days that the cursor and the items of a Connection stay in MongoDB that no release serves any more."""
    backend_gone_seconds: Annotated[float, Field(ge=0, le=86_400)] = 60
    """Seconds that a backend with booked runs may be deleted or not Ready, also by the router's word, before they move;
    three times as long where the router does not answer. As long none of its slots is free, and no user's task goes
    without a slot instead."""
    max_lost_runs: Annotated[int, Field(ge=1)] = _LIMITS.max_lost_runs
    """Runs that may vanish before a person is asked."""
    max_preemptions: Annotated[int, Field(ge=0)] = _LIMITS.max_preemptions
    """How often a Background run may have to give its GPU slot to a user's task; 0: never."""
    runs_without_gpu: Annotated[int, Field(ge=0)] = _LIMITS.runs_without_gpu
    """Users' runs at the same time while no GPU backend is Ready: the router may answer from a CPU."""
    workers: Annotated[int, Field(ge=1, le=256)] = 16
    """Tasks reconciled at the same time."""

    lease_seconds: Annotated[float, Field(ge=lease.SHORTEST_DURATION)] = 8
    """Seconds that the Lease lasts without renewal; at least the margin (2 s), two renewals (1.5 s each) and a second
    for one without an answer."""
    watch_silence_seconds: Annotated[float, Field(gt=0)] = 90
    """A watch that has received nothing for so many seconds is dead."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least important line that is logged."""
    tracing: bool = False
    """One OpenTelemetry trace per task. Say where to with operator.extraEnv, for example
    OTEL_EXPORTER_OTLP_ENDPOINT."""

    @field_validator("connection_hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            if not re.fullmatch(addresses.HOST_NAME, one):
                raise ValueError(f"{one!r} is no name of a host in small letters, nor *. and one")
        return value

    @field_validator("notice_networks")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            ipaddress.ip_network(one)
        return value

    @model_validator(mode="after")
    def _joern(self) -> Settings:
        if self.joern_enabled and not self.joern_image:
            raise ValueError("joern_enabled needs joern_image, an image of the target joern of the Dockerfile")
        return self

    @model_validator(mode="after")
    def _sandbox(self) -> Settings:
        if self.sandbox_enabled and not self.run_token_keys:
            raise ValueError(
                "sandbox_enabled needs run_token_keys: a command must find nothing that answers without one"
            )
        return self

    @model_validator(mode="after")
    def _mail(self) -> Settings:
        if self.notice_mail_server and "@" not in parseaddr(self.notice_mail_from)[1]:
            raise ValueError("notice_mail_from needs an address, such as Jervis <jervis@example.com>")
        if self.notice_mail_user and self.notice_mail_security is mailer.Security.NONE:
            raise ValueError("a password is sent over TLS only: set notice_mail_security to starttls or tls")
        return self

    @model_validator(mode="after")
    def _cluster_state(self) -> Settings:
        if self.cluster_state_url and not self.run_token_keys:
            raise ValueError("cluster_state_url needs run_token_keys: a run shows its token")
        return self

    @field_validator(
        "team",
        "job_image_pull_secrets",
        "notice_networks",
        "connection_hosts",
        "cluster_state_namespaces",
        "cluster_state_log_namespaces",
        mode="before",
    )
    @classmethod
    def _list(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return json.loads(value) if value.startswith("[") else [one.strip() for one in value.split(",") if one.strip()]

    @field_validator("job_run_as_user", mode="before")
    @classmethod
    def _none(cls, value: Any) -> Any:
        return None if value == "" else value

    @field_validator("admission", "clients", mode="before")
    @classmethod
    def _map(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return yaml.safe_load(value) or {}
        except yaml.YAMLError as error:
            raise ValueError(f"is neither JSON nor YAML: {error}") from error

    def limits(self) -> observed.Limits:
        """What decisions depend on."""
        return observed.Limits(
            clients=self.client_terms(),
            advance=timedelta(seconds=self.advance_seconds),
            catch_up=timedelta(seconds=self.catch_up_seconds),
            idle_threshold=timedelta(seconds=self.idle_seconds),
            background_age=timedelta(seconds=self.background_age_seconds),
            stale_after=timedelta(seconds=self.stale_seconds),
            recheck=timedelta(seconds=self.recheck_seconds),
            qualifying_at_once=self.qualify_at_once,
            max_lost_runs=self.max_lost_runs,
            max_preemptions=self.max_preemptions,
            runs_without_gpu=self.runs_without_gpu,
            job_ttl_seconds=self.job_ttl_seconds,
            approval_expires=approvals.period(self.approval_expire_after),
            approval_default=self.approval_default,
        )

    def admitted(self, annotations: Annotations) -> Admission | None:
        """What namespaces may have; `annotations` reads those of a Namespace."""
        if self.admission is None:
            return None
        own = {name: one.limits() for name, one in self.admission.namespaces.items()}
        return Admission(annotations, self.admission.limits.limits(), own)

    @property
    def release(self) -> str:
        """The name of this release among those that share a database."""
        return f"{self.namespace}/{self.lease_name}"

    def client_terms(self) -> own.Clients:
        """What differs from client to client."""
        default = own.Terms(timedelta(days=self.schedule_lead_days), self.team)
        return own.Clients(
            default,
            {
                name: own.Terms(
                    default.lead if one.schedule_lead_days is None else timedelta(days=one.schedule_lead_days),
                    default.team if one.team is None else one.team,
                )
                for name, one in self.clients.items()
            },
        )

    def terms(self) -> sweep.Terms:
        """When finished tasks go."""
        return sweep.Terms(
            success=timedelta(seconds=self.finished_ttl_seconds),
            failure=timedelta(seconds=self.failed_ttl_seconds),
            per_client=self.finished_per_client,
            total=self.finished_total,
            jobs=timedelta(seconds=self.job_ttl_seconds),
        )

    def pace(self) -> archivist.Pace:
        """How fast they go."""
        return archivist.Pace(every=self.archive_seconds, deletes_per_second=self.deletes_per_second)

    def periods(self) -> retention.Periods:
        """What goes from MongoDB, and when."""
        return retention.Periods(
            leftovers=timedelta(days=self.retention_days),
            history=timedelta(days=max(self.archive_days, self.retention_days)),
            abandoned=timedelta(days=self.deleted_days),
            share=self.removal_percent / 100,
        )

    def outcome_pace(self) -> reporter.Pace:
        """When outcomes are reported to the knowledge base."""
        return reporter.Pace(every=self.outcome_seconds)

    def notice_pace(self) -> notifier.Pace:
        """When events are reported to webhooks."""
        window = min(notifier.WINDOW, timedelta(days=self.retention_days))
        return notifier.Pace(every=self.notice_seconds, window=window)

    def mail_server(self) -> mailer.Server:
        """Who takes notices by mail."""
        return mailer.Server(
            host=self.notice_mail_server,
            port=self.notice_mail_port,
            security=self.notice_mail_security,
            sender=self.notice_mail_from,
            user=self.notice_mail_user,
            password=self.notice_mail_password,
        )

    def transcription(self) -> transcriptions.Template | None:
        """What Jobs that transcribe share; None: there are none."""
        if not self.transcription_engine or not self.sources_url:
            return None
        return transcriptions.Template(
            run=self.template(),
            url=self.sources_url,
            image=self.transcription_image or self.image,
            engine=self.transcription_engine,
            model=self.transcription_model,
            deadline_seconds=self.transcription_deadline_seconds,
            ttl_seconds=self.job_ttl_seconds,
            resources=self.transcription_resources,
            node_selector=self.transcription_node_selector,
            tolerations=self.transcription_tolerations,
            volumes=self.transcription_volumes,
            mounts=self.transcription_volume_mounts,
            scratch=self.transcription_scratch,
        )

    def code_analysis(self) -> analyses.Template | None:
        """What Jobs that analyze repositories share; None: there are none, since nothing may be cloned."""
        if not self.sources_url or not self.run_token_keys:
            return None
        return analyses.Template(
            run=self.template(),
            sources_url=self.sources_url,
            kb_url=self.kb_url,
            joern=self.joern_image if self.joern_enabled else "",
            seconds=self.joern_seconds,
            memory=self.joern_memory,
            heap=self.joern_heap,
            ttl_seconds=self.job_ttl_seconds,
        )

    def sandboxes(self) -> sandboxes.Template | None:
        """What Jobs that run commands of agents share; None: there are none."""
        if not self.sandbox_enabled:
            return None
        return sandboxes.Template(
            run=self.template(),
            kb_url=self.kb_url,
            images=self.sandbox_images,
            seconds=self.sandbox_seconds,
            memory=self.sandbox_memory,
            cpu=self.sandbox_cpu,
            ttl_seconds=self.job_ttl_seconds,
        )

    def cluster_state(self) -> clusterstate.Allowed | None:
        """Whose state is shown to runs; None: that of none."""
        if not self.cluster_state_url:
            return None
        return clusterstate.Allowed(
            self.namespace, frozenset(self.cluster_state_namespaces), frozenset(self.cluster_state_log_namespaces)
        )

    def _sandbox_variables(self) -> dict[str, str]:
        """What runs are to know of them."""
        if not self.sandbox_enabled:
            return {}
        images = json.dumps(sorted(self.sandbox_images))
        bounds = {"SECONDS": str(self.sandbox_seconds), "MEMORY": self.sandbox_memory, "IMAGES": images}
        return {"JERVIS_SANDBOX": "true", **{f"JERVIS_SANDBOX_{name}": value for name, value in bounds.items()}}

    def template(self) -> job.Template:
        """What all Jobs share."""
        placed = {
            "nodeSelector": self.job_node_selector,
            "affinity": self.job_affinity,
            "topologySpreadConstraints": self.job_topology_spread_constraints,
            "priorityClassName": self.job_priority_class_name,
            "runtimeClassName": self.job_runtime_class_name,
            "imagePullSecrets": [{"name": secret} for secret in self.job_image_pull_secrets],
        }
        return job.Template(
            namespace=self.namespace,
            image=self.image,
            image_pull_policy=self.image_pull_policy,
            service_account=self.job_service_account,
            kb_url=self.kb_read_url or self.kb_url,
            router_url=self.router_url,
            release=self.release,
            sources_url=self.sources_url,
            cluster_state_url=self.cluster_state_url,
            cluster_state=self.cluster_state(),
            run_tokens=bool(self.run_token_keys),
            mongodb_uri=self.mongodb_uri,
            mongodb_database=self.mongodb_database,
            mongodb_secret=self.mongodb_secret,
            mongodb_secret_key=self.mongodb_secret_key,
            model=self.model,
            num_ctx=self.num_ctx,
            planner_model=self.planner_model,
            planner_num_ctx=self.planner_num_ctx,
            grace_seconds=self.job_grace_seconds,
            default_deadline_seconds=self.job_deadline_seconds,
            resources=self.job_resources,
            environment={**self._sandbox_variables(), **self.job_tools.variables(), **self.job_environment},
            features=self.job_flags,
            labels=self.job_labels,
            annotations=self.job_annotations,
            run_as_user=self.job_run_as_user,
            pod={key: value for key, value in placed.items() if value},
            tolerations=self.job_tolerations,
            extra_env=[one.model_dump(by_alias=True, exclude_none=True) for one in self.job_extra_env],
            volumes=self.job_extra_volumes,
            volume_mounts=self.job_extra_volume_mounts,
        )


def read() -> Settings:
    """The settings from the environment. Raises `Invalid` with one line per variable and key that is wrong."""
    try:
        return Settings()
    except pydantic.ValidationError as error:
        lines = [_problem(one["loc"], one["msg"]) for one in error.errors(include_url=False, include_input=False)]
        raise Invalid("The settings cannot be used:\n" + "\n".join(lines), field="env") from error


def _problem(where: tuple[int | str, ...], what: str) -> str:
    first, *rest = (str(part) for part in where if part != "[key]")
    return f"  {'.'.join([PREFIX + first.upper(), *rest])}: {what}"
