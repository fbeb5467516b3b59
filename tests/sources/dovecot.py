"""A real Dovecot on loopback: one process tree of ours, mailboxes in a folder, any number of users.

Source: Dovecot 2.3 documentation, "Quick configuration" and "Static password database".
"""

from __future__ import annotations

import contextlib
import imaplib
import os
import pwd
import shutil
import smtplib
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from hack.cluster import certificates
from tests import ports

PASSWORD = "word-of-the-test"
_START_SECONDS = 20.0
_CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap pop3 lmtp
ssl = {ssl}
{certificate}
disable_plaintext_auth = no
default_internal_user = dovecot
default_login_user = dovenull
default_internal_group = dovecot
first_valid_uid = 1
auth_failure_delay = 0
service anvil {{
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
{oauth}
mail_location = maildir:{folder}/mail/%u
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/mail/%u
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Trash {{
    special_use = \\Trash
    auto = create
  }}
}}
service imap-login {{
  inet_listener imap {{
    address = 127.0.0.1
    port = {port}
  }}
  inet_listener imaps {{
    address = 127.0.0.1
    port = {secure}
  }}
}}
service pop3-login {{
  inet_listener pop3 {{
    address = 127.0.0.1
    port = {pop3}
  }}
  inet_listener pop3s {{
    address = 127.0.0.1
    port = {pop3s}
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
service stats {{
  unix_listener stats-writer {{
    mode = 0666
  }}
}}
"""


_OAUTH = """
auth_mechanisms = plain login {mechanisms}
passdb {{
  driver = oauth2
  mechanisms = {mechanisms}
  args = {folder}/oauth2.conf
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
        self.folder, self.authority = folder, authority
        self.port, secure, self.pop3, self.pop3s, self.lmtp = free
        self.url, self.secure = f"imap://127.0.0.1:{self.port}", f"imaps://localhost:{secure}"

    def deliver(self, *mails: bytes, user: str = "ada") -> None:
        """By LMTP, as a mail transport does."""
        with smtplib.LMTP("127.0.0.1", self.lmtp, timeout=20) as client:
            for raw in mails:
                assert client.sendmail("petra@example.com", [user], raw) == {}

    @contextlib.contextmanager
    def mailbox(self, user: str = "ada") -> Iterator[imaplib.IMAP4]:
        """A client of the standard library, logged in."""
        with imaplib.IMAP4("127.0.0.1", self.port, timeout=20) as client:
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
    *, tls: bool = False, introspection: str = "", mechanisms: str = "xoauth2 oauthbearer"
) -> Iterator[Dovecot]:
    """A Dovecot that is gone afterwards. It needs root, as its master process does. `introspection`: the URL (RFC 7662)
    at which it asks about access tokens, which come by `mechanisms`."""
    owner = pwd.getpwnam("mail")
    # Not pytest's folder: that is root's alone, and mails belong to a user without rights.
    with tempfile.TemporaryDirectory(prefix="dovecot-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        for part in ("run", "state", "mail"):
            (folder / part).mkdir()
        os.chown(folder / "mail", owner.pw_uid, owner.pw_gid)
        free = [ports.free() for _ in range(5)]
        lines, authority = "", None
        if tls:
            authority, certificate, key = _certificates(folder / "tls")
            lines = f"ssl_cert = <{certificate}\nssl_key = <{key}"
        if introspection:
            (folder / "oauth2.conf").write_text(_INTROSPECTION.format(url=introspection))
        config = folder / "dovecot.conf"
        config.write_text(
            _CONFIG.format(
                folder=folder, port=free[0], secure=free[1], pop3=free[2], pop3s=free[3], lmtp=free[4],
                password=PASSWORD, uid=owner.pw_uid, gid=owner.pw_gid,
                ssl="yes" if tls else "no", certificate=lines,
                oauth=_OAUTH.format(folder=folder, mechanisms=mechanisms) if introspection else "",
            )
        )  # fmt: skip
        program = shutil.which("dovecot", path=f"/usr/sbin:/usr/local/sbin:{os.environ.get('PATH', '')}")
        assert program, "dovecot is missing: make mailserver"
        child = subprocess.Popen([program, "-F", "-c", str(config)], cwd=folder)
        place = Dovecot(folder, free, authority)
        try:
            _wait(place, child)
            yield place
        finally:
            child.terminate()
            child.wait(20)


def _certificates(folder: Path) -> tuple[Path, Path, Path]:
    """(the authority, a certificate for localhost, its key)."""
    made = certificates.Authority(folder)
    pair = made.issue("localhost", "/CN=localhost", ["localhost"])
    return made.pair.certificate, pair.certificate, pair.key


def _wait(place: Dovecot, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with place.mailbox():
                return
        except (OSError, imaplib.IMAP4.error) as error:
            log = place.folder / "log"
            said = log.read_text()[-2000:] if log.exists() else ""
            if child.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"dovecot does not serve: {error}\n{said}") from error
            time.sleep(0.1)
