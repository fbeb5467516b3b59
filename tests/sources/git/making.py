"""Repositories and servers for tests: the git command line, `git daemon`, and `git http-backend` behind a login."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import getpass
import os
import re
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

from aiohttp import web

from tests import httpserver, needs, ports, waiting

_SHA = re.compile(r"[0-9a-f]{40}")
AT = "1790000000 +0200"
_ENV = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.com", "GIT_AUTHOR_DATE": AT,
    "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.com", "GIT_COMMITTER_DATE": AT,
}  # fmt: skip


class Repository:
    """A bare repository that a server has, and what people do to it by fast-import: any bytes in any place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "-q", "--bare", "--initial-branch=main")
        self.git("config", "uploadpack.allowAnySHA1InWant", "false")

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def git(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        done = subprocess.run(
            ["git", "--git-dir", str(self.path), *arguments],
            input=stdin, env={**_ENV, **(env or {})}, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def commit(
        self,
        message: str | bytes = "A change",
        files: Mapping[bytes | str, bytes | None] | None = None,
        *,
        branch: str = "main",
        parents: tuple[str, ...] | None = None,
        encoding: str = "",
        modes: Mapping[bytes | str, str] | None = None,
        author: bytes = b"Ada <ada@example.com>",
    ) -> str:
        """A commit on a branch, which moves there; `parents` are commits or branches, by default the branch itself."""
        said = message.encode() if isinstance(message, str) else message
        before = parents if parents is not None else ((branch,) if self.there(branch) else ())
        head = f"refs/heads/{branch}".encode()
        # Without `reset` a commit without parents would follow what the branch is at.
        lines = [b"feature done", b"reset " + head, b"commit " + head, b"mark :1"]
        lines += [b"author %s %s" % (author, AT.encode()), b"committer %s %s" % (author, AT.encode())]
        if encoding:
            lines.append(b"encoding " + encoding.encode())
        lines += [b"data %d" % len(said), said]
        shas = [one if _SHA.fullmatch(one) else self.sha(one) for one in before]
        lines += [(b"merge " if number else b"from ") + sha.encode() for number, sha in enumerate(shas)]
        if not shas:
            lines.append(b"deleteall")
        for name, body in (files or {}).items():
            raw = name.encode() if isinstance(name, str) else name
            quoted = b'"' + b"".join(b"\\%03o" % one for one in raw) + b'"'
            mode = (modes or {}).get(name, "100644").encode()
            if body is None:
                lines.append(b"D " + quoted)
            elif mode == b"160000":
                lines.append(b"M 160000 %s %s" % (body, quoted))
            else:
                lines += [b"M %s inline %s" % (mode, quoted), b"data %d" % len(body), body]
        words = ("fast-import", "--quiet", "--force", "--date-format=raw-permissive", "--cat-blob-fd=1")
        return self.git(*words, stdin=b"\n".join([*lines, b"get-mark :1", b"done", b""])).decode().strip()

    def there(self, name: str) -> bool:
        return bool(self.git("for-each-ref", f"refs/heads/{name}"))

    def sha(self, name: str) -> str:
        return self.git("rev-parse", name).decode().strip()

    def point(self, branch: str, at: str) -> None:
        """A forced push."""
        self.git("update-ref", f"refs/heads/{branch}", self.sha(at))

    def many(self, count: int, branch: str = "main") -> None:
        """So many commits, each of which changes two small files."""
        lines = [b"feature done"]
        for number in range(count):
            said = b"Change %d" % number
            body = b"".join(b"line %d of %d\n" % (line, number) for line in range(20))
            lines += [
                b"commit refs/heads/" + branch.encode(),
                b"committer Ada <ada@example.com> %d +0000" % (1790000000 + number),
            ]
            lines += [b"data %d" % len(said), said]
            for name in (b"src/m%d.py" % (number % 97), b"docs/p%d.md" % (number % 31)):
                lines += [b"M 100644 inline " + name, b"data %d" % len(body), body]
        self.git("fast-import", "--quiet", stdin=b"\n".join([*lines, b"done", b""]))


@contextlib.contextmanager
def daemon(root: Path) -> Iterator[str]:
    """`git daemon` for all of `root`; its URL."""
    port = ports.free()
    process = subprocess.Popen(
        ["git", "daemon", "--export-all", f"--base-path={root}", f"--port={port}", "--listen=127.0.0.1", str(root)],
        env=_ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    _listening(port)
    try:
        yield f"git://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def _listening(port: int) -> None:
    def connects() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    waiting.until(connects, f"something listens on port {port}")


class Http:
    """`git http-backend` behind a login. `status`: answer this instead; `seen`: the Authorization headers. `cut`: the
    connection of a push breaks off, "before" it is done or "after" it, `times` times, after `stall` seconds."""

    def __init__(self, root: Path, login: str) -> None:
        self._root, self._login = root, login
        self.status, self.seen, self.requests = 0, list[str](), list[str]()
        self.url, self.cut, self.stall, self.times = "", "", 0.0, 1000
        self.slow = False
        """The list of what may be pushed to stalls."""
        self.pushing = asyncio.Event()
        """Set while a push stalls."""

    @contextlib.asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Http]:
        async with httpserver.serving(self._answer, tls=tls) as url:
            self.url = url.replace("127.0.0.1", "localhost") if tls else url
            yield self

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path_qs}")
        self.seen.append(request.headers.get("Authorization", ""))
        if self.status:
            where = {"Location": "http://127.0.0.1:9/elsewhere.git/info/refs"} if self.status < 400 else {}
            return web.Response(status=self.status, headers=where)
        wanted = "Basic " + base64.b64encode(self._login.encode()).decode()
        if self._login and self.seen[-1] != wanted:
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="git"'})
        body = await request.read()
        pushes = request.path.endswith("git-receive-pack") and len(body) > 4
        if (pushes and self.times and self.cut == "before") or (self.slow and "upload-pack" in request.path_qs):
            return await self._cut(request)
        env = {
            **_ENV, "GIT_PROJECT_ROOT": str(self._root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": request.path,
            "REQUEST_METHOD": request.method, "QUERY_STRING": request.query_string,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
            "HTTP_GIT_PROTOCOL": request.headers.get("Git-Protocol", ""), "REMOTE_ADDR": "127.0.0.1",
        }  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            "git", "http-backend", env=env, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        raw, _ = await process.communicate(body)
        if pushes and self.times and self.cut == "after":
            return await self._cut(request)
        head, _, body = raw.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(headers.pop("Status", "200").split()[0])
        return web.Response(status=status, body=body, headers=headers)

    async def _cut(self, request: web.Request) -> web.Response:
        self.times -= 1
        self.pushing.set()
        await asyncio.sleep(self.stall)
        self.pushing.clear()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()


class Ssh:
    """An sshd of ours on loopback: `key` opens it as `user`, `known_hosts` has its host key."""

    def __init__(self, folder: Path) -> None:
        needs.packages("openssh-server")
        folder.mkdir()
        self.port, self.user = ports.free(), getpass.getuser()
        for name in ("host", "client"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
        self.key = (folder / "client").read_text()
        host = (folder / "host.pub").read_text().split()[:2]
        self.known_hosts = f"[127.0.0.1]:{self.port} {' '.join(host)}\n"
        (folder / "authorized").write_text((folder / "client.pub").read_text())
        settings = {
            "Port": self.port, "ListenAddress": "127.0.0.1", "HostKey": folder / "host", "StrictModes": "no",
            "AuthorizedKeysFile": folder / "authorized", "UsePAM": "no", "PidFile": "none",
            "PermitRootLogin": "prohibit-password", "PasswordAuthentication": "no",
        }  # fmt: skip
        self.config = folder / "sshd_config"
        self.config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))

    @contextlib.contextmanager
    def running(self) -> Iterator[Ssh]:
        Path("/run/sshd").mkdir(exist_ok=True)
        process = subprocess.Popen(
            ["/usr/sbin/sshd", "-D", "-f", str(self.config)], stderr=subprocess.DEVNULL, start_new_session=True
        )
        _listening(self.port)
        try:
            yield self
        finally:
            os.killpg(process.pid, 9)
            process.wait()
