"""The one client of the Kubernetes API: plain JSON over one aiohttp session, with explicit timeouts.

The `kubernetes` package gives what is tedious (kubeconfig, in-cluster credentials, token rotation, the blocking client
of the lease's thread); the requests themselves are made here (docs/decisions/0003). Every call that changes something
asks `fence` first and is not sent when that raises. Errors are sorted by retry meaning in `errors`. Everybody in
`controllers` may call me, as `kube.Kube` and by the names below; nobody else talks to the apiserver.
"""

from kube.access import authorization, configuration, session, tls
from kube.client import Kube, Row
from kube.errors import AlreadyExists, Conflict, Expired, Forbidden, NotFound, Refused, Unavailable
from kube.leases import LeaseStore
from kube.resources import (
    BACKENDS,
    CONNECTIONS,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    PODS,
    SECRETS,
    TASKS,
    TOKEN_REVIEWS,
    Object,
    Resource,
)

__all__ = [
    "BACKENDS",
    "CONNECTIONS",
    "EVENTS",
    "JOBS",
    "LEASES",
    "NAMESPACES",
    "PODS",
    "SECRETS",
    "TASKS",
    "TOKEN_REVIEWS",
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
    "Row",
    "Unavailable",
    "authorization",
    "configuration",
    "session",
    "tls",
]
