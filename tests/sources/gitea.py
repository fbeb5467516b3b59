"""A real Gitea on loopback with SQLite: one process of a user without rights, gone after the tests.

It refuses to run as root.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from hack import gitea
from tests import ports, waiting

_USER = "nobody"


class Gitea:
    """`url` is its root, `token` one of the administrator `ada`. `ROOT_URL` is another address, as behind a proxy."""

    def __init__(self, folder: Path, port: int, user: str) -> None:
        self.folder, self.port, self.user = folder, port, user
        self.url, self.token = f"http://127.0.0.1:{port}", ""
        self._child: subprocess.Popen[bytes] | None = None
        self._http = httpx.Client(base_url=f"{self.url}/api/v1/", timeout=60, trust_env=False)

    def command(self, *words: str) -> list[str]:
        """A command line of the program."""
        return [str(self.folder / "gitea"), *words, "--config", str(self.folder / "app.ini")]

    def run(self, *words: str) -> str:
        """One command to its end."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False, **self._as())
        assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return str(done.stdout)

    def start(self) -> None:
        """Return once it serves."""
        self._child = subprocess.Popen(
            self.command("web"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self._as()
        )
        log = self.folder / "log" / "gitea.log"
        waiting.served(lambda: self._http.get("version").status_code == 200, self._child, log, httpx.HTTPError)

    def kill(self) -> None:
        """SIGKILL."""
        if self._child is not None:
            self._child.kill()
            self._child.wait(waiting.PATIENCE)

    def close(self) -> None:
        """Close the client."""
        self._http.close()

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """A request of the administrator; its JSON."""
        answer = self._http.request(method, path, headers={"Authorization": f"token {self.token}"}, **more)
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json() if answer.content else None

    def repository(self, name: str, *, owner: str = "ada", commits: bool = False) -> str:
        """A new repository; its full name."""
        self.ask("POST", f"admin/users/{owner}/repos", json={"name": name, "auto_init": commits, "private": True})
        return f"{owner}/{name}"

    def issue(self, repository: str, title: str, body: str = "", **more: Any) -> int:
        """A new issue; its number."""
        return int(
            self.ask("POST", f"repos/{repository}/issues", json={"title": title, "body": body, **more})["number"]
        )

    def comment(self, repository: str, number: int, body: str) -> int:
        """A new comment; its id."""
        return int(self.ask("POST", f"repos/{repository}/issues/{number}/comments", json={"body": body})["id"])

    def token_of(self, user: str, *scopes: str) -> str:
        """A token of another user."""
        answer = self._http.post(
            f"users/{user}/tokens", auth=(user, "word-of-the-test"), json={"name": "test", "scopes": scopes}
        )
        assert answer.status_code == 201, answer.text
        return str(answer.json()["sha1"])

    def _as(self) -> dict[str, Any]:
        home = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "USER": self.user}
        if os.getuid() != 0:
            return {"env": home, "cwd": self.folder}
        owner = pwd.getpwnam(self.user)
        more = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        return {"env": home, "cwd": self.folder, "start_new_session": True, **more}


@contextlib.contextmanager
def running() -> Iterator[Gitea]:
    """A Gitea with the administrator `ada`. `make gitea` builds it."""
    user = _USER if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    # Not pytest's folder: that is root's alone.
    with tempfile.TemporaryDirectory(prefix="gitea-") as name:
        folder, port = Path(name), ports.free()
        gitea.lay_out(folder, "127.0.0.1", port, user=user, root="http://gitea.example/")
        one = Gitea(folder, port, user)
        one.run("migrate")
        said = one.run(
            *("admin", "user", "create", "--admin", "--username", "ada", "--password", "word-of-the-test", "--email"),
            *("ada@example.com", "--must-change-password=false", "--access-token", "--access-token-scopes", "all"),
            *("--access-token-name", "test"),
        )
        one.token = said.strip().rpartition(" ")[2].split()[-1]
        one.start()
        try:
            yield one
        finally:
            one.kill()
            one.close()
