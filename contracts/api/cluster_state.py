"""What is read of a namespace for a run: the JSON of the operator's /api/v1/cluster-state.

Neither Secrets nor data of ConfigMaps, no environment and no arguments of containers, no labels' or annotations'
values. What is shown of messages is bounded, and has "***" where it held one of them.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from crds.model import Model

MOST = 100
"""Things of one kind in one answer."""
USUAL = 20
LOG_LINES = 500
"""The most of one log."""
LOG_CHARS = 12_000
NAME = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"


class Part(StrEnum):
    """What may be asked for."""

    PODS = "pods"
    WORKLOADS = "workloads"
    EVENTS = "events"
    SERVICES = "services"
    VOLUMES = "volumes"
    QUOTAS = "quotas"


class Condition(Model):
    """A condition of an object."""

    type: str
    """Its type."""
    status: str
    """True, False or Unknown."""
    reason: str = ""
    """In one word."""
    message: str = ""
    """For people; bounded."""
    since: str = ""
    """When it last changed; all times are RFC 3339."""


class Ended(Model):
    """How a container ended."""

    reason: str = ""
    """For example OOMKilled, Error, Completed."""
    exit_code: int | None = None
    """Of its first process."""
    signal: int | None = None
    """What killed it, if a signal did."""
    finished_at: str = ""
    """When."""
    message: str = ""
    """Its termination message: only where logs of the namespace may be read."""


class Container(Model):
    """A container of a pod."""

    name: str
    """Its name."""
    kind: str = "container"
    """container, init or ephemeral."""
    image: str = ""
    """As the pod names it."""
    ready: bool = False
    """Whether its probe says so."""
    restarts: int = 0
    """How often it was started again."""
    state: str = ""
    """waiting, running or terminated; empty before the kubelet says."""
    reason: str = ""
    """For example CrashLoopBackOff, ImagePullBackOff, CreateContainerConfigError."""
    message: str = ""
    """What the kubelet says of waiting; bounded."""
    since: str = ""
    """When it was started."""
    ended: Ended | None = None
    """How it ended, where it is terminated."""
    last: Ended | None = None
    """How it ended before it was started again."""
    limits: dict[str, str] = Field(default_factory=dict)
    """Its limits of CPU and memory."""


class Pod(Model):
    """A pod."""

    name: str
    """Its name."""
    phase: str = ""
    """Pending, Running, Succeeded, Failed or Unknown."""
    ready: str = ""
    """Ready containers of all, as in 1/2."""
    reason: str = ""
    """For example Evicted."""
    message: str = ""
    """Why it is in this phase; bounded."""
    owner: str = ""
    """KIND/NAME of what made it."""
    node: str = ""
    """Where it runs."""
    created_at: str = ""
    """When it was made."""
    deleting: bool = False
    """Whether it is being deleted."""
    conditions: tuple[Condition, ...] = ()
    """Those that are not True."""
    containers: tuple[Container, ...] = ()
    """In the order of the pod, init containers first."""


class Workload(Model):
    """A Deployment, StatefulSet, DaemonSet, Job or CronJob. Numbers that a kind does not have are null."""

    kind: str
    """Its kind."""
    name: str
    """Its name."""
    created_at: str = ""
    """When it was made."""
    desired: int | None = None
    """Replicas, pods of a DaemonSet, completions of a Job."""
    ready: int | None = None
    """Those that are ready; of a Job, that succeeded."""
    updated: int | None = None
    """Those of the latest version."""
    available: int | None = None
    """Those that have been ready for long enough."""
    active: int | None = None
    """Running pods of a Job, running Jobs of a CronJob."""
    failed: int | None = None
    """Failed pods of a Job."""
    observed: bool = True
    """False while its controller has not seen its latest version."""
    suspended: bool = False
    """Whether a Job or CronJob is suspended, or a Deployment paused."""
    schedule: str = ""
    """Of a CronJob."""
    last_scheduled_at: str = ""
    """Of a CronJob."""
    last_success_at: str = ""
    """Of a CronJob."""
    started_at: str = ""
    """Of a Job."""
    ended_at: str = ""
    """Of a Job that is complete."""
    images: tuple[str, ...] = ()
    """Of its containers."""
    conditions: tuple[Condition, ...] = ()
    """All of them."""


class Service(Model):
    """A Service."""

    name: str
    """Its name."""
    type: str = ""
    """ClusterIP, NodePort, LoadBalancer or ExternalName."""
    ports: tuple[str, ...] = ()
    """As PORT/PROTOCOL or NAME:PORT/PROTOCOL."""
    ready: int | None = None
    """Endpoints that are ready; null where they could not be read."""
    not_ready: int | None = None
    """Endpoints that are not."""


class Volume(Model):
    """A PersistentVolumeClaim."""

    name: str
    """Its name."""
    phase: str = ""
    """Pending, Bound or Lost."""
    requested: str = ""
    """The storage that it asks for."""
    capacity: str = ""
    """The storage that it has."""
    storage_class: str = ""
    """Of its volume."""
    conditions: tuple[Condition, ...] = ()
    """All of them."""


class Quota(Model):
    """A ResourceQuota."""

    name: str
    """Its name."""
    used: dict[str, str] = Field(default_factory=dict)
    """By resource."""
    hard: dict[str, str] = Field(default_factory=dict)
    """The most, by resource."""


class Event(Model):
    """An Event."""

    type: str = ""
    """Normal or Warning."""
    reason: str = ""
    """In one word."""
    about: str = ""
    """KIND/NAME of its object."""
    message: str = ""
    """For people; bounded."""
    count: int = 1
    """How often it happened."""
    last_at: str = ""
    """When it last did."""
    source: str = ""
    """Who reports it."""


class _Listed(Model):
    left_out: int = 0
    """How many more there are of those that were asked for, as far as is known."""
    unread: str = ""
    """Why some or all of them could not be looked at; empty: all were."""


class Pods(_Listed):
    """Pods, those that are not as they should be first."""

    items: tuple[Pod, ...] = ()
    """At most `limit`."""


class Workloads(_Listed):
    """Workloads, those that are not as they should be first."""

    items: tuple[Workload, ...] = ()
    """At most `limit`."""


class Services(_Listed):
    """Services, those without a ready endpoint first."""

    items: tuple[Service, ...] = ()
    """At most `limit`."""


class Volumes(_Listed):
    """PersistentVolumeClaims, those that are not bound first."""

    items: tuple[Volume, ...] = ()
    """At most `limit`."""


class Quotas(_Listed):
    """ResourceQuotas."""

    items: tuple[Quota, ...] = ()
    """At most `limit`."""


class Events(_Listed):
    """Events, the latest first."""

    items: tuple[Event, ...] = ()
    """At most `limit`."""


class State(Model):
    """The state of a namespace; a part that was not asked for is null."""

    namespace: str
    """That of the run's task."""
    pods: Pods | None = None
    """Its pods."""
    workloads: Workloads | None = None
    """What makes pods."""
    events: Events | None = None
    """What happened in the last hour or so."""
    services: Services | None = None
    """Services and their endpoints."""
    volumes: Volumes | None = None
    """Claims of volumes."""
    quotas: Quotas | None = None
    """Quotas of resources."""


class Log(Model):
    """The end of a container's log."""

    namespace: str
    """That of the run's task."""
    pod: str
    """The pod."""
    container: str = ""
    """The container, where one was named."""
    previous: bool = False
    """Whether it is of the container before its last restart."""
    text: str = ""
    """Its last lines, in which passwords and tokens are replaced as far as they are recognized."""
    cut: bool = False
    """Whether lines that were asked for are missing at its beginning."""
