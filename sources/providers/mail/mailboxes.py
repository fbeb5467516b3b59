"""The protocols of Connections of type Email, by the scheme of their URL."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping

from crds import connection
from sources.core import hosts, limits, port
from sources.providers.mail import imap, mails, pop3


def opened(
    plain: bool, tls: ssl.SSLContext, monotonic: Callable[[], float], reached: hosts.Hosts = hosts.LOCAL
) -> Callable[[connection.Spec, Mapping[str, str], limits.Bucket], port.Source]:
    """What opens the mailbox of a Connection: `plain` allows those without TLS. It raises `Misconfigured`."""
    budget = limits.Budget(mails.IN_FLIGHT)
    by_imap = imap.opened(plain, tls, monotonic, budget, reached)
    by_pop3 = pop3.opened(plain, tls, monotonic, budget, reached)

    def opens(spec: connection.Spec, credentials: Mapping[str, str], bucket: limits.Bucket) -> port.Source:
        chosen = by_pop3 if spec.url.startswith("pop3") else by_imap
        return chosen(spec, credentials, bucket)

    return opens
