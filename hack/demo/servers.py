"""Dovecot, with a mail transport behind it where it is asked for, and Gitea beside the local cluster, for its pods and
this machine alone.

They listen on the namespace's end of the cable, with certificates of an authority of their own. Each run of the
demonstration starts them empty.
"""

from __future__ import annotations

import contextlib
import imaplib
import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hack import dovecot, gitea, smtpd
from hack.cluster import certificates, lifecycle, netns, process
from hack.cluster.layout import Layout
from hack.demo import errors

IMAPS, SUBMISSIONS, HTTPS = 993, 465, 3000
_LMTP = 24
USER = "platform"
_FOLDERS = Path("/var/lib/jervis-cluster")  # in reach of users without rights, which a checkout may be not
_NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--")
_SECONDS = 60.0


@dataclass(frozen=True)
class Servers:
    """All, running. `authority` is a file in PEM; `token` opens Gitea's API for `USER`, `password` the mailbox."""

    address: str
    authority: Path
    password: str
    token: str

    @property
    def mailbox(self) -> str:
        return f"imaps://{self.address}:{IMAPS}"

    @property
    def outbox(self) -> str:
        """Where mails can be sent: takes those of any sender to any recipient; each recipient has a mailbox, with the
        same password."""
        return f"smtps://{self.address}:{SUBMISSIONS}"

    @property
    def forge(self) -> str:
        return f"https://{self.address}:{HTTPS}"

    @contextlib.contextmanager
    def inbox(self, user: str = USER) -> Iterator[imaplib.IMAP4_SSL]:
        """A client with INBOX open."""
        tls = ssl.create_default_context(cafile=str(self.authority))
        with imaplib.IMAP4_SSL(self.address, IMAPS, ssl_context=tls, timeout=20) as client:
            client.login(user, self.password)
            client.select("INBOX")
            yield client

    def put(self, mail: bytes) -> None:
        """Append a mail to INBOX."""
        with self.inbox() as client:
            said, why = client.append("INBOX", "", "", mail)
            if said != "OK":
                raise errors.Failure(f"Dovecot does not take a mail: {why!r}")

    def remove(self, identity: str) -> None:
        """Delete the mail with that Message-ID, for good."""
        with self.inbox() as client:
            found = client.search(None, "HEADER", "Message-ID", identity)[1][0].split()
            if len(found) != 1:
                raise errors.Failure(f"the mailbox has {len(found)} mails with the Message-ID {identity}")
            client.store(found[0].decode(), "+FLAGS", "\\Deleted")
            client.expunge()

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """A request to Gitea's API; the JSON of its answer."""
        request = urllib.request.Request(  # noqa: S310 -- our own address
            f"{self.forge}/api/v1/{path}",
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Content-Type": "application/json", "Authorization": f"token {self.token}"},
        )
        tls = ssl.create_default_context(cafile=str(self.authority))
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
        try:
            with direct.open(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise errors.Failure(f"Gitea: {method} {path}: {error.code} {error.read()[:300]!r}") from error


def authority(place: Layout) -> certificates.Authority:
    """Who signs their certificates: the same one in every run, as pods read it when they start."""
    return certificates.Authority(place.directory / "demo-certificates")


def start(place: Layout, *, sends: bool = False) -> Servers:
    """All, without anything in them; with `sends` mails can be sent, for which the machine needs the packages of
    `prerequisites.SERVERS`. Raises errors.Failure, and those of hack.cluster."""
    stop(place)
    folder = _folder(place)
    folder.mkdir(parents=True, mode=0o755)
    folder.parent.chmod(0o755)
    signs = authority(place)
    pair = signs.issue("server", "/CN=demo", [place.node])
    one = Servers(place.node, signs.pair.certificate, secrets.token_hex(16), _gitea(place, folder / "gitea", pair))
    _dovecot(place, folder / "dovecot", one.password, pair, sends=sends)
    for name, port in (("gitea", HTTPS), ("dovecot", SUBMISSIONS if sends else IMAPS)):
        _daemon(place, name).wait(partial(_listens, place.node, port), _SECONDS)
    return one


def stop(place: Layout) -> None:
    """Stop all and forget what is in them."""
    for name in lifecycle.GUESTS:
        _daemon(place, name).stop()
    shutil.rmtree(_folder(place), ignore_errors=True)


def _listens(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=2):
        return True
    return False


def _folder(place: Layout) -> Path:
    return _FOLDERS / place.name


def _daemon(place: Layout, name: str) -> process.Daemon:
    return process.Daemon(name, place.daemons)


def _dovecot(place: Layout, folder: Path, password: str, pair: certificates.Pair, *, sends: bool) -> None:
    folder.mkdir()
    inside = netns.prefix(place)
    ports, more = {"imaps": IMAPS}, ""
    if sends:
        ports, more = {**ports, "submissions": SUBMISSIONS, "lmtp": _LMTP}, smtpd.RELAY
        _daemon(place, "smtpd").start(smtpd.command(folder, f"{place.node}:{_LMTP}"), prefix=inside)
    config = dovecot.prepare(folder, place.node, ports, password=password, tls=pair, more=more)
    _daemon(place, "dovecot").start([dovecot.program(), "-F", "-c", config], prefix=inside)


def _gitea(place: Layout, folder: Path, pair: certificates.Pair) -> str:
    """Start it; the token of its administrator."""
    folder.mkdir()
    root = f"https://{place.node}:{HTTPS}/"
    config = gitea.lay_out(folder, place.node, HTTPS, user="nobody", root=root, tls=pair)
    home = {"HOME": str(folder), "USER": "nobody"}

    def run(*words: str) -> str:
        command = [*_NOBODY, str(folder / "gitea"), *words, "--config", str(config)]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **home}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise errors.Failure(f"gitea {words[0]}: {(done.stderr or done.stdout)[-500:]}")
        return done.stdout

    run("migrate")
    said = run(
        *("admin", "user", "create", "--admin", "--username", USER, "--password", secrets.token_hex(16)),
        *("--email", f"{USER}@example.com", "--must-change-password=false", "--access-token"),
        *("--access-token-name", "demo", "--access-token-scopes", "all"),
    )
    inside = (*netns.prefix(place), "env", f"--chdir={folder}", *_NOBODY)
    _daemon(place, "gitea").start([folder / "gitea", "web", "--config", config], home, inside)
    return said.split()[-1]
