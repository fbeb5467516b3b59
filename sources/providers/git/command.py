"""One hardened `git`: no hooks, no helpers, no configuration but this one, one protocol, and an end for every command.

Credentials travel in the environment of the commands that need them (RFC 7617) or, for ssh, in files of a directory
that lives as long as the command; neither in arguments nor in the configuration of a clone. Redirects are refused: they
would carry the header to another host. A command goes to an address that was judged before, see `hosts`.

Source: git-config(1), git(1) "Environment Variables", ssh_config(5).
"""

from __future__ import annotations

import base64
import os
import re
import resource
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sources.core import host_address, hosts, port

TOKEN_USER = "oauth2"  # noqa: S105  # a name
"""GitLab asks for this name beside a token; GitHub and Gitea take any."""
SSH_USER = "git"
BIG_FILE = 1 << 20
"""Bytes from which Git streams a file and takes it for binary."""
_SAID_CHARS = 400
_CONNECT_SECONDS = 20.0
_ADVICE = ("@", "hint:", "Please make sure you have the correct", "and the repository exists")
_AUTHORITIES = "/etc/ssl/certs"
"""Those of the image, which an own authority comes beside."""
_KEY, _KNOWN_HOSTS = "ssh-privatekey", "known_hosts"
_PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418}

_CONFIG: Mapping[str, str] = {
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.fsmonitor": "false",
    "core.bigFileThreshold": str(BIG_FILE),
    "core.quotePath": "true",
    "credential.helper": "",
    "diff.renameLimit": "400",
    "fetch.recurseSubmodules": "false",
    "fetch.unpackLimit": "1",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    "maintenance.auto": "false",
    "pack.threads": "1",
    "pack.windowMemory": "64m",
    "core.packedGitLimit": "256m",
    "core.packedGitWindowSize": "64m",
    "core.deltaBaseCacheLimit": "32m",
    "protocol.version": "2",
    # A clone on a volume may belong to the user id of an earlier pod.
    "safe.directory": "*",
    "transfer.fsckObjects": "true",
    "uploadpack.allowFilter": "true",
}
# Faults that old versions of Git wrote into well-known repositories; none of them does harm.
_OLD_FAULTS = ("zeroPaddedFilemode", "badTimezone", "missingSpaceBeforeDate", "missingEmail", "badEmail", "badDate")

_REJECTED = re.compile(
    r"could not read (Username|Password)|Authentication failed|terminal prompts disabled|Permission denied \("
    r"|returned error: 40[13]|Access denied|invalid credentials",
    re.IGNORECASE,
)
_HOST_KEY = re.compile(
    r"Host key verification failed|REMOTE HOST IDENTIFICATION|No .* host key is known", re.IGNORECASE
)
_ABSENT = re.compile(
    r"repository .* not found|does not exist|returned error: 404|not appear to be a git repository|not exported"
    r"|is this a git repository|No such file or directory|Repository not found",
    re.IGNORECASE,
)
_MOVED = re.compile(r"returned error: 30\d|redirect", re.IGNORECASE)
_REFUSED = re.compile(r"fsck|object corrupt|error in object|badTree|hasDot", re.IGNORECASE)


_FULL = re.compile(rb"^(?!remote:).*(No space left on device|Disk quota exceeded)")
"""What our own side says; the remote's words have a mark."""


class Failed(port.Unreachable):
    """A command ended badly, and what it said is about no known fault of credentials or address. `output`: what it
    wrote to standard output."""

    def __init__(self, message: str, output: bytes = b"") -> None:
        super().__init__(message)
        self.output = output


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a repository is and as whom it is read. `authorities` is a file of certificates, "" for those of the
    machine, `ca` has more of them in PEM; `seconds` the longest that a transfer may last."""

    url: str
    username: str = ""
    password: str = ""
    key: str = ""
    known_hosts: str = ""
    authorities: str = ""
    seconds: float = 3600.0
    ca: str = ""
    reached: hosts.Hosts = hosts.LOCAL

    @property
    def scheme(self) -> str:
        """Of the URL."""
        return urlsplit(self.url).scheme


def remote(
    url: str,
    credentials: Mapping[str, str],
    *,
    plain: bool,
    authorities: str,
    seconds: float,
    reached: hosts.Hosts = hosts.LOCAL,
) -> Remote:
    """The remote that the URL and the values of the Secret give, for polls and pushes alike. `plain` allows a password
    on http://. Raises `Misconfigured`."""
    host_address.refuse_login(url)
    scheme = urlsplit(url).scheme
    username = credentials.get("username", "")
    access = credentials.get(port.ACCESS_KEY, "")
    password = access or credentials.get("password", "") or credentials.get("token", "")
    if scheme == "ssh":
        key, known = credentials.get(_KEY, ""), credentials.get(_KNOWN_HOSTS, "")
        for name, value in ((_KEY, key), (_KNOWN_HOSTS, known)):
            if not value.strip():
                raise port.Misconfigured(
                    f"The Secret lacks {name}, which ssh:// needs.",
                    field="spec.secretRef",
                    remedy="Add it: kubectl create secret generic NAME --from-file=ssh-privatekey=FILE"
                    " --from-file=known_hosts=FILE (ssh-keyscan HOST prints the latter; compare its fingerprints).",
                )
        return Remote(url, username or SSH_USER, key=key, known_hosts=known, seconds=seconds, reached=reached)
    if scheme == "http" and password and not plain:
        raise port.Misconfigured(
            "The password would travel readable over http://.",
            field="spec.url",
            remedy="Use https://, or allow it with sources.settings.plaintext of the chart.",
        )
    own = credentials.get("ca.crt", "").strip()
    if own:
        hosts.own_context(own)
    user = TOKEN_USER if access else username or TOKEN_USER
    return Remote(url, user, password, authorities=authorities, seconds=seconds, ca=own, reached=reached)


def environment(at: Remote | None = None, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of a command; with `at` of one that calls the remote, `more` is of its configuration."""
    config = {**_CONFIG, **(more or {})}
    config |= {f"{part}.fsck.{fault}": "ignore" for part in ("fetch", "receive") for fault in _OLD_FAULTS}
    allowed = ""
    if at is not None:
        allowed = at.scheme
        if at.authorities or at.ca:
            config |= {"http.sslCAPath": _AUTHORITIES, "http.sslCAInfo": config.get("http.sslCAInfo", at.authorities)}
        if at.password and at.scheme in ("http", "https"):
            login = base64.b64encode(f"{at.username}:{at.password}".encode()).decode()
            config["http.extraHeader"] = f"Authorization: Basic {login}"
    made = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "SSH_ASKPASS": "/bin/false",
        "GIT_ALLOW_PROTOCOL": allowed,
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_CONFIG_COUNT": str(len(config)),
    }
    for number, (name, value) in enumerate(config.items()):
        made[f"GIT_CONFIG_KEY_{number}"], made[f"GIT_CONFIG_VALUE_{number}"] = name, value
    return made


def local(
    directory: Path,
    *arguments: str,
    stdin: bytes = b"",
    seconds: float = 300.0,
    watch: Callable[[], str] | None = None,
    most: Mapping[int, int] | None = None,
) -> bytes:
    """What a command says that makes no call; `watch` is as for `call`, `most` has limits of `resource`. Raises
    `Failed`, `DiskFull`."""
    return _run(["--git-dir", str(directory), *arguments], environment(), stdin, seconds, watch, most)


@contextmanager
def lines(
    directory: Path,
    *arguments: str,
    stdin: bytes = b"",
    seconds: float = 300.0,
    watch: Callable[[], str] | None = None,
) -> Iterator[Iterator[bytes]]:
    """The lines of a command that makes no call, as they come; the end of the block ends the command. Raises `Failed`
    where it came to a bad end by itself, or was ended by `seconds` or `watch`."""
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(  # noqa: S603
            ["git", "--git-dir", str(directory), *arguments],  # noqa: S607  # the git of the image
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            start_new_session=True,
        )
    ended: list[str] = []
    assert process.stdout is not None
    with process.stdout, _ending(process, seconds, watch, ended):

        def read() -> Iterator[bytes]:
            assert process.stdout is not None
            yield from process.stdout
            if process.wait() or ended:
                raise Failed(ended[0] if ended else f"git ended with {process.returncode}")

        yield read()


def call(
    at: Remote,
    *arguments: str,
    stdin: bytes = b"",
    seconds: float | None = None,
    watch: Callable[[], str] | None = None,
) -> bytes:
    """What a command says that calls the remote; `watch` is asked each second, and what it answers ends the command.

    Raises `Rejected`, `Misconfigured`, `Unreachable`, `DiskFull`.
    """
    with port.disk(), _called(at, _judged(at)) as (config, more):
        try:
            return _run([*arguments], {**environment(at, config), **more}, stdin, seconds or at.seconds, watch)
        except Failed as error:
            raise _told(at, error) from error


def _told(at: Remote, error: Failed) -> port.Rejected | port.Misconfigured | port.Unreachable:
    said = error.message
    if _HOST_KEY.search(said):
        return port.Misconfigured(
            f"The host key of the server is none of known_hosts: {said}",
            field="spec.secretRef",
            remedy="Compare the fingerprint with the one that the server's owner publishes, and add the key to it.",
        )
    if _ABSENT.search(said):
        return port.Misconfigured(
            f"There is no such repository, or these credentials do not see it: {said}",
            field="spec.url",
            remedy="Correct spec.url, or give a Secret that may read it.",
        )
    if _REJECTED.search(said):
        return port.Rejected(
            f"The server refuses the credentials: {said}",
            field="spec.secretRef",
            remedy="Correct username and password, token or ssh-privatekey of the Secret; a private repository needs"
            " them.",
        )
    if _MOVED.search(said):
        return port.Misconfigured(
            f"The server sends the call elsewhere, and a redirect is not followed: {said}",
            field="spec.url",
            remedy="Write the address that the repository has now.",
        )
    if _REFUSED.search(said):
        return port.Misconfigured(
            f"Git refuses objects of the repository: {said}",
            field="spec.url",
            remedy="git fsck in a clone shows them; they have to be rewritten there.",
        )
    return port.Unreachable(f"The repository cannot be read: {said}")


def _judged(at: Remote) -> Sequence[str]:
    """The addresses to which the call may go; none for a file. Raises `Misconfigured`, `Unreachable`."""
    if at.scheme not in _PORTS:
        return ()
    parts = urlsplit(at.url)
    try:
        name, number = parts.hostname or "", parts.port or _PORTS[at.scheme]
        found = at.reached.find(name, number)
        if len(found) > 1 and at.scheme in ("ssh", "git"):
            # They are given one address, so it has to be one that answers.
            with at.reached.connect(name, number, _CONNECT_SECONDS) as made:
                return (str(made.getpeername()[0]),)
        return found
    except OSError as error:
        raise port.Unreachable(f"The repository cannot be read: {error}") from error


@contextmanager
def _called(at: Remote, found: Sequence[str]) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """(configuration, environment) by which the call goes to one of these addresses, and is trusted and logged in."""
    parts = urlsplit(at.url)
    name, number = parts.hostname or "", parts.port or _PORTS.get(at.scheme, 0)
    first = next(iter(found), "")
    literal = first == name
    with tempfile.TemporaryDirectory(prefix="jervis-git-") as folder:
        config: dict[str, str] = {}
        if at.scheme in ("http", "https") and not literal:
            config["http.curloptResolve"] = f"{name}:{number}:{','.join(map(_bracketed, found))}"
        if at.scheme == "git" and not literal:
            # The server may choose a repository by the name that it was called by.
            there = parts.netloc
            config[f"url.git://{_bracketed(first)}:{number}/.insteadOf"] = f"git://{there}/"
            yield config, {"GIT_OVERRIDE_VIRTUAL_HOST": there}
            return
        if at.ca:
            bundle = Path(folder, "ca.crt")
            given = Path(at.authorities).read_text() if at.authorities else ""
            bundle.write_text(f"{given}\n{at.ca}\n")
            config["http.sslCAInfo"] = str(bundle)
        if at.scheme != "ssh":
            yield config, {}
            return
        key, known = Path(folder, "key"), Path(folder, "known_hosts")
        for path, text in ((key, at.key), (known, at.known_hosts)):
            path.touch(mode=0o600)
            path.write_text(text.strip() + "\n")
        options = {
            "HostName": first, "HostKeyAlias": name if number == _PORTS["ssh"] else f"[{name}]:{number}",
            "BatchMode": "yes", "StrictHostKeyChecking": "yes", "UserKnownHostsFile": str(known),
            "GlobalKnownHostsFile": "/dev/null", "IdentitiesOnly": "yes", "IdentityAgent": "none",
            "ForwardAgent": "no", "ClearAllForwardings": "yes", "PermitLocalCommand": "no", "ProxyCommand": "none",
            "ConnectTimeout": "20", "ServerAliveInterval": "15", "ServerAliveCountMax": "4",
        }  # fmt: skip
        # The user name goes by a file: it may have any characters, and ssh reads an argument that begins with a dash.
        told = Path(folder, "config")
        told.write_text("".join(f"{name} {value}\n" for name, value in (*options.items(), ("IdentityFile", key))))
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", at.username):
            raise port.Misconfigured("username of the Secret is no user name for ssh.", field="spec.secretRef")
        yield config, {"GIT_SSH_COMMAND": f"ssh -F {told} -l {at.username}", "GIT_SSH_VARIANT": "ssh"}


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _run(
    arguments: list[str],
    env: Mapping[str, str],
    stdin: bytes,
    seconds: float,
    watch: Callable[[], str] | None = None,
    most: Mapping[int, int] | None = None,
) -> bytes:
    process = subprocess.Popen(  # noqa: S603
        ["git", *arguments],  # noqa: S607  # the git of the image
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(env),
        start_new_session=True,
    )
    # Before it is given anything to work on.
    for kind, value in (most or {}).items():
        with suppress(ProcessLookupError):
            resource.prlimit(process.pid, kind, (value, value))
    ended: list[str] = []
    with _ending(process, seconds, watch, ended):
        out, err = process.communicate(stdin)
    if process.returncode == 0 and not ended:
        return out
    if full := next((line for line in err.splitlines() if _FULL.search(line)), None):
        raise port.DiskFull(said(full))
    raise Failed(ended[0] if ended else said(err) or f"git ended with {process.returncode}", out)


@contextmanager
def _ending(
    process: subprocess.Popen[bytes], seconds: float, watch: Callable[[], str] | None, ended: list[str]
) -> Iterator[None]:
    """End the process, and what it started, after `seconds`, when `watch` says why, and in any case at the end."""
    over = threading.Event()

    def look() -> None:
        left = seconds
        while not over.wait(min(1.0, left)):
            left -= 1.0
            why = (watch() if watch else "") or (f"it took longer than {seconds:.0f} s" if left <= 0 else "")
            if why:
                ended.append(why)
                kill(process)
                return

    watcher = threading.Thread(target=look, name="git watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        kill(process)
        process.wait()


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a command of ours and everything that it started, if it runs still."""
    if process.poll() is None:
        end(process.pid)


def end(group: int) -> None:
    """End a group of processes."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def said(err: bytes) -> str:
    """The end of what a command said, in one line, without advice."""
    lines = [line.strip() for line in err.decode(errors="replace").splitlines()]
    return " ".join(line for line in lines if line and not line.startswith(_ADVICE))[-_SAID_CHARS:]
