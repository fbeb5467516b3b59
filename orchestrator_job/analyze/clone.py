"""A branch of a Git Connection out of the sources process, by smart HTTP with the token of the attempt.

The clone is shallow and of this branch alone. Nothing of the repository runs: no hooks, no submodules, no filters, and
symbolic links are plain files. Source: gitprotocol-http(5), git-clone(1), `sources.providers.git.reading`.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

import httpx

from crds import addresses
from orchestrator_job import git_environment
from orchestrator_job.analyze.layout import Failure, Source, Work

T = TypeVar("T")
DEPTH = 20
"""Commits: those that an overview names."""
PAUSE = 2.0
REPOSITORY = "Jervis-Repository"
"""Header that names the repository (`sources.providers.git.reading`), `org/name`, percent-encoded."""
_SAID = 500
_AWAY = re.compile(
    r"returned error: (?:408|425|429|50[234])|Could not resolve|Failed to connect|Connection (?:refused|reset)"
    r"|timed out|Empty reply|early EOF|unexpected disconnect|hung up unexpectedly",
    re.IGNORECASE,
)
_SYMREF = re.compile(r"^ref: refs/heads/(\S+)\tHEAD$", re.MULTILINE)


class Away(Exception):  # noqa: N818  # a state, as in the other packages
    """The sources process does not answer, or not yet."""


@dataclass(frozen=True, slots=True)
class Clone:
    """Clones `connection` from the sources process at `url`; calls are repeated until `seconds` are over."""

    url: str
    connection: str
    token_file: Path
    seconds: float
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def make(self, ref: str, work: Work) -> Source:
        """Clone the branch `ref` ("": the default one) and record what it is. Raises `Failure`."""
        deadline = self.monotonic() + self.seconds
        base = f"{self.url.rstrip('/')}/api/v1/git{addresses.path(self.connection)}"

        def left() -> float:
            return max(1.0, deadline - self.monotonic())

        def tried(step: Callable[[], T]) -> T:
            while True:
                try:
                    return step()
                except Away as error:
                    if self.monotonic() + PAUSE > deadline:
                        raise Failure("CloneFailed", f"The sources process does not answer: {error}") from error
                    self.sleep(PAUSE)

        repository = tried(lambda: self._named(base))
        heads = tried(lambda: self._git(left(), "ls-remote", "--symref", base, "HEAD", "refs/heads/*"))
        found = _SYMREF.search(heads)
        default = found[1] if found else ""
        branch = ref or default
        if not branch:
            raise Failure("CloneFailed", "The repository has no default branch: name one in spec.git.ref.")
        if f"\trefs/heads/{branch}\n" not in heads:
            raise Failure("CloneFailed", f"The Connection reads no branch {branch!r}: see its spec.filter.include.")
        asked = ("--depth", str(DEPTH), "--single-branch", "--no-tags", "--template=", "--branch", branch)
        tried(lambda: self._fresh(work, left(), asked, base))
        commit = self._git(left(), "--git-dir", str(work.git), "rev-parse", "HEAD").strip()
        source = Source(repository=repository, branch=branch, commit=commit, default=default)
        work.cloned(source)
        return source

    def _fresh(self, work: Work, seconds: float, asked: tuple[str, ...], base: str) -> None:
        """Clone into an empty folder: a try that broke off, or a container that ran before, may have left some."""
        subprocess.run(["rm", "-rf", "--", str(work.tree)], check=True)  # noqa: S603, S607  # read-only folders, too
        self._git(seconds, "clone", "-q", *asked, "--", base, str(work.tree))

    def _named(self, base: str) -> str:
        """The repository of the Connection. Raises `Away`, `Failure`."""
        headers = {"Authorization": f"Bearer {self._token()}"}
        try:
            answer = httpx.get(
                f"{base}/info/refs?service=git-upload-pack", headers=headers, timeout=60.0, trust_env=False
            )
        except httpx.HTTPError as error:
            raise Away(f"{error!r}") from error
        if answer.status_code in (408, 425, 429) or answer.status_code >= 500:
            raise Away(f"{answer.status_code}: {_problem(answer)}")
        if not answer.is_success:
            raise Failure("CloneFailed", _problem(answer))
        return unquote(answer.headers.get(REPOSITORY, "")) or self.connection

    def _git(self, seconds: float, *arguments: str) -> str:
        """What a command of Git says. Raises `Away`, `Failure`."""
        environment = git_environment.environment({"http.extraHeader": f"Authorization: Bearer {self._token()}"})
        try:
            done = subprocess.run(  # noqa: S603
                ["git", *arguments],  # noqa: S607  # the git of the image
                env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise Failure("CloneFailed", f"git {arguments[0]} took longer than {seconds:.0f} s") from error
        if done.returncode == 0:
            return done.stdout.decode(errors="replace")
        said = " ".join(done.stderr.decode(errors="replace").split())[-_SAID:]
        if _AWAY.search(said):
            raise Away(said)
        raise Failure("CloneFailed", said or f"git ended with {done.returncode}")

    def _token(self) -> str:
        try:
            return self.token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Away(f"the token cannot be read: {error}") from error


def _problem(answer: httpx.Response) -> str:
    try:
        error = answer.json()["error"]
        return " ".join(str(error[name]) for name in ("message", "remedy") if error.get(name))[:_SAID]
    except (ValueError, KeyError, TypeError):
        return answer.text[:_SAID]
