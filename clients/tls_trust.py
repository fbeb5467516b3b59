"""Which certificates are trusted where one client reaches servers of the public web and servers of an own authority."""

from __future__ import annotations

import ssl

import httpx


def context(own: str = "") -> ssl.SSLContext:
    """The public authorities, those of the machine, and those of SSL_CERT_FILE, which the chart's `caBundle` sets;
    beside them those of `own`, in PEM. Raises `ssl.SSLError` for an `own` without certificates."""
    made = httpx.create_ssl_context(trust_env=False)
    made.load_default_certs()
    if own:
        made.load_verify_locations(cadata=own)
    return made
