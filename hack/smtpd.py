"""A mail transport of ours behind Dovecot's submission service: OpenSMTPD, which hands every mail to an LMTP server.

It has no TLS and listens on loopback alone: Dovecot knows the users. Its queue and its socket are in a mount namespace
of its own, so that another one on the machine is not met. Source: smtpd.conf(5) of OpenSMTPD 6.8.
"""

from __future__ import annotations

from pathlib import Path

PORT = 2525
_CONFIG = """
listen on 127.0.0.1 port {port}
action "keep" relay host lmtp://{lmtp}
match from any for any action "keep"
"""
_START = """
set -e
mkdir -p /var/spool
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/spool
mkdir -m 711 /var/spool/smtpd
exec smtpd -d -f "$1"
"""
RELAY = f"submission_relay_host = 127.0.0.1\nsubmission_relay_port = {PORT}\nsubmission_relay_ssl = no\n"
"""What Dovecot's configuration needs for it."""


def command(folder: Path, lmtp: str) -> list[str | Path]:
    """Lay out `folder`; the program, as root. `lmtp` is HOST:PORT of who keeps the mails."""
    config = folder / "smtpd.conf"
    config.write_text(_CONFIG.format(port=PORT, lmtp=lmtp))
    return ["unshare", "--mount", "sh", "-c", _START, "smtpd", config]
