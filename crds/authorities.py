"""Which certificates are trusted where one client reaches servers of the public web and servers of an own authority."""

from __future__ import annotations

import ssl

import httpx


def context() -> ssl.SSLContext:
    """The public authorities, those of the machine, and those of SSL_CERT_FILE, which the chart's `caBundle` sets."""
    made = httpx.create_ssl_context(trust_env=False)
    made.load_default_certs()
    return made
