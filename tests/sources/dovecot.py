"""A real Dovecot on loopback: one process tree of ours, mailboxes in a folder, any number of users."""

from __future__ import annotations

import contextlib
import imaplib
import smtplib
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from hack import dovecot as settings
from hack.cluster import certificates
from tests import needs, ports, waiting

PASSWORD = "word-of-the-test"


_OAUTH = """
auth_mechanisms = plain login {mechanisms}
passdb {{
  driver = oauth2
  mechanisms = {mechanisms}
  args = {folder}/oauth2.conf
}}
"""
_SASL = """
service auth {{
  inet_listener {{
    address = 127.0.0.1
    port = {port}
  }}
}}
"""
_INTROSPECTION = """
introspection_mode = post
introspection_url = {url}
username_attribute = email
active_attribute = active
active_value = true
"""


class Dovecot:
    """`url` for imap://, `secure` for imaps:// with the authority of `authority`; `pop3`, `pop3s`, `lmtp` are ports."""

    def __init__(self, folder: Path, free: Sequence[int], authority: Path | None) -> None:
        needs.packages("dovecot-imapd", "dovecot-lmtpd", "dovecot-pop3d", "dovecot-submissiond")
        self.folder, self.authority = folder, authority
        self.port, secure, self.pop3, self.pop3s, self.lmtp = free
        self.url, self.secure = f"imap://127.0.0.1:{self.port}", f"imaps://localhost:{secure}"

    def deliver(self, *mails: bytes, user: str = "ada") -> None:
        """By LMTP, as a mail transport does."""
        with smtplib.LMTP("127.0.0.1", self.lmtp, timeout=waiting.PATIENCE) as client:
            for raw in mails:
                assert client.sendmail("petra@example.com", [user], raw) == {}

    @contextlib.contextmanager
    def mailbox(self, user: str = "ada") -> Iterator[imaplib.IMAP4]:
        """A client of the standard library, logged in."""
        with imaplib.IMAP4("127.0.0.1", self.port, timeout=waiting.PATIENCE) as client:
            client.login(user, PASSWORD)
            yield client

    def put(self, *mails: bytes, folder: str = "INBOX", user: str = "ada") -> None:
        """Append mails to a folder, which is made if it is not there."""
        with self.mailbox(user) as client:
            if client.select(folder)[0] != "OK":
                client.create(folder)
            for raw in mails:
                said, why = client.append(folder, "", "", raw)
                assert said == "OK", why


def mail(number: int, text: str = "ASK", *, subject: str = "", more: str = "", sent: str = "") -> bytes:
    """A mail with its number in Message-ID and subject."""
    lines = [
        "From: Petra <petra@example.com>",
        "To: infra@example.org",
        f"Subject: {subject or f'Mail {number}'}",
        f"Message-ID: <{sent or number}@example.com>",
        "Date: Mon, 23 Nov 2026 08:00:00 +0100",
        *([more] if more else []),
        "",
        text,
        "",
    ]
    return "\r\n".join(lines).encode()


@contextlib.contextmanager
def running(
    *, tls: bool = False, introspection: str = "", mechanisms: str = "xoauth2 oauthbearer", sasl: int = 0
) -> Iterator[Dovecot]:
    """A Dovecot that is gone afterwards. It needs root, as its master process does. `introspection`: the URL (RFC 7662)
    at which it asks about access tokens, which come by `mechanisms`. `sasl`: a port at which other servers ask it about
    logins."""
    # Not pytest's folder: that is root's alone, and mails belong to a user without rights.
    with tempfile.TemporaryDirectory(prefix="dovecot-") as name:
        folder = Path(name)
        free = [ports.free() for _ in range(5)]
        authority, pair = _certificates(folder / "tls") if tls else (None, None)
        names = ("imap", "imaps", "pop3", "pop3s", "lmtp")
        oauth = ""
        if introspection:
            (folder / "oauth2.conf").write_text(_INTROSPECTION.format(url=introspection))
            oauth = _OAUTH.format(folder=folder, mechanisms=mechanisms)
        if sasl:
            oauth += _SASL.format(port=sasl)
        free_ports = dict(zip(names, free, strict=True))
        config = settings.prepare(folder, "127.0.0.1", free_ports, password=PASSWORD, tls=pair, more=oauth)
        child = subprocess.Popen([settings.program(), "-F", "-c", str(config)], cwd=folder)
        place = Dovecot(folder, free, authority)
        try:
            waiting.served(lambda: _opens(place), child, folder / "log", OSError, imaplib.IMAP4.error)
            yield place
        finally:
            child.terminate()
            child.wait(waiting.PATIENCE)


def _certificates(folder: Path) -> tuple[Path, certificates.Pair]:
    """(the authority, a certificate for localhost with its key)."""
    made = certificates.Authority(folder)
    return made.pair.certificate, made.issue("localhost", "/CN=localhost", ["localhost"])


def _opens(place: Dovecot) -> bool:
    with place.mailbox():
        return True
