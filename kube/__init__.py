"""The one client of the Kubernetes API: plain JSON over one aiohttp session, with explicit timeouts.

The `kubernetes` package gives what is tedious (kubeconfig, in-cluster credentials, token rotation) and is imported by
`configuration` alone; the requests are made here (docs/decisions/0031). Every call that changes something asks `fence`
first and is not sent when that raises. Errors are sorted by retry meaning in `errors`. `stream` keeps up a list and
watch, `lease` says who of several processes leads.

Who may call me: `controllers`, `router` and `cli`, as `kube.Kube` and by the names below. I call only `crds`. What I
never do: decide, retry, or read the environment.
"""

from kube.access import Unconfigured, authorization, configuration, fenced, session, tls
from kube.client import Kube
from kube.errors import AlreadyExists, Conflict, Expired, Forbidden, NotFound, Refused, TooLarge, Unavailable
from kube.leases import LeaseStore
from kube.resources import (
    BACKENDS,
    CONFIG_MAPS,
    CONNECTIONS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    PODS,
    QUOTAS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    TASKS,
    TOKEN_REVIEWS,
    VOLUME_CLAIMS,
    Object,
    Resource,
)

__all__ = [
    "BACKENDS",
    "CONFIG_MAPS",
    "CONNECTIONS",
    "CRON_JOBS",
    "DAEMON_SETS",
    "DEPLOYMENTS",
    "ENDPOINT_SLICES",
    "EVENTS",
    "JOBS",
    "LEASES",
    "NAMESPACES",
    "PODS",
    "QUOTAS",
    "SECRETS",
    "SERVICES",
    "STATEFUL_SETS",
    "TASKS",
    "TOKEN_REVIEWS",
    "VOLUME_CLAIMS",
    "AlreadyExists",
    "Conflict",
    "Expired",
    "Forbidden",
    "Kube",
    "LeaseStore",
    "NotFound",
    "Object",
    "Refused",
    "Resource",
    "TooLarge",
    "Unavailable",
    "Unconfigured",
    "authorization",
    "configuration",
    "fenced",
    "session",
    "tls",
]
