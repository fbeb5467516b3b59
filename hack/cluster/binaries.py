"""Programs built from Go modules and kept in the user's cache, outside every checkout.

A tool's directory in the cache carries the hash of its go.mod, go.sum and sources and of the Go version, so a changed
version is built beside the old one and a second checkout builds nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hack.cluster import errors, progress

TOOLS = Path(__file__).resolve().parent.parent / "tools"
_VARIABLE, _HELM = "JERVIS_TEST_KUBERNETES", "JERVIS_TEST_HELM"
_GOGC = "400"  # a fifth less processor time than with 100, for memory that a compiler holds for seconds
_DOWNLOADING = "go: downloading "


@dataclass(frozen=True)
class Tool:
    """A Go module under hack/tools and the programs built from it: {file name: package}.

    `seconds` is what the build takes alone on two cores, downloads included.
    """

    module: str
    programs: dict[str, str]
    seconds: float
    ldflags: str = "-s -w"
    version: str = ""
    tags: str = ""

    def pending_seconds(self) -> float:
        """`seconds`, or 0 when the cache has it."""
        return 0 if place(self).exists() else self.seconds


def _kubernetes(module: str, programs: dict[str, str], seconds: float, version: str) -> Tool:
    return Tool(module, programs, seconds, f"-s -w -X k8s.io/component-base/version.gitVersion={version}", version)


KUBERNETES = _kubernetes(
    "kubernetes",
    {
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl")
    }
    | {"etcd": "go.etcd.io/etcd/server/v3"},
    340,
    "v1.37.2",
)
# The local cluster has the newest that can be built; `make test-versions` takes the oldest that the chart takes.
_OLDEST = {"kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver"}
APISERVERS = {"": KUBERNETES, "oldest": _kubernetes("kubernetes-oldest", _OLDEST, 130, "v1.31.0")}
COREDNS = Tool("coredns", {"coredns": "."}, 40)
HELM = Tool("helm", {"helm": "helm.sh/helm/v3/cmd/helm"}, 55)
HELMS = {"": HELM, "newest": Tool("helm-newest", {"helm": "helm.sh/helm/v4/cmd/helm"}, 90)}
WEAVIATE = Tool("weaviate", {"weaviate-server": "github.com/weaviate/weaviate/cmd/weaviate-server"}, 120)
KUBECONFORM = Tool("kubeconform", {"kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform"}, 10)
# Without the discovery of targets in clouds, which is most of it.
PROMTOOL = Tool("prometheus", {"promtool": "github.com/prometheus/prometheus/cmd/promtool"}, 90, tags="remove_all_sd")
PAUSE = Tool("pause", {"pause": "."}, 5)
ALL = (KUBERNETES, COREDNS, PAUSE, WEAVIATE, HELM, KUBECONFORM, PROMTOOL)


def cache() -> Path:
    """`${XDG_CACHE_HOME:-~/.cache}/jervis`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jervis"


def apiserver() -> Tool:
    """The Kubernetes whose kube-apiserver stands alone in tests: `JERVIS_TEST_KUBERNETES` is oldest or unset.

    Raises errors.Missing for another word.
    """
    return _chosen(_VARIABLE, APISERVERS)


def helm() -> Tool:
    """The Helm of the chart's tests: `JERVIS_TEST_HELM` is newest or unset. Raises errors.Missing for another word."""
    return _chosen(_HELM, HELMS)


def _chosen(variable: str, tools: Mapping[str, Tool]) -> Tool:
    wanted = os.environ.get(variable, "")
    if wanted not in tools:
        raise errors.Missing(f"{variable}={wanted}: unset it, or give one of {', '.join(filter(None, tools))}")
    return tools[wanted]


def program(tool: Tool, name: str, report: progress.Progress) -> Path:
    """The path of one program of `tool`, built first if the cache lacks the tool.

    Raises errors.Missing without Go, errors.Failure when the build fails (it names the log).
    """
    return directory(tool, report) / name


def directory(tool: Tool, report: progress.Progress) -> Path:
    """The directory with all programs of `tool`."""
    source = TOOLS / tool.module
    return build_once(
        place(tool), report, f"building {tool.module}", lambda scratch: _build(source, tool, scratch), tool.seconds
    )


def place(tool: Tool) -> Path:
    """Where the programs of `tool` are, or will be once they are built."""
    source = TOOLS / tool.module
    sources = [source / "go.mod", source / "go.sum", *sorted(source.rglob("*.go"))]
    salt = f"{go_version()} {tool.ldflags} {sorted(tool.programs)}{tool.tags}"
    return cache() / "tools" / f"{tool.module}-{digest(sources, salt)}"


def digest(files: list[Path], salt: str) -> str:
    """16 hex digits over the contents of `files` (in this order) and `salt`."""
    hashed = hashlib.sha256(salt.encode())
    for file in files:
        hashed.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return hashed.hexdigest()[:16]


def build_once(
    target: Path, report: progress.Progress, text: str, make: Callable[[Path], None], expected: float = 0
) -> Path:
    """`target`, filled by `make(scratch)` in about `expected` seconds if it is not there; a second caller waits."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
            try:
                with report.step(text, expected):
                    make(scratch)
                scratch.chmod(0o755)
                scratch.rename(target)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return target


def go_version() -> str:
    """Such as `go version go1.26.1 linux/amd64`. Raises errors.Missing without Go."""
    go = shutil.which("go")
    if go is None:
        raise errors.Missing("Go is missing: install Go 1.26 or newer and put it on the PATH (go.dev/dl)")
    return subprocess.run([go, "version"], check=True, capture_output=True, text=True).stdout.strip()


def logged(name: str, *command: str | Path, cwd: Path, reach: str, **environment: str) -> None:
    """Run `command` with what it says in the log `name` of the cache.

    Raises errors.Failure with the log's last lines and its path; `reach` is the server that must be reachable.
    """
    log = cache() / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        done = subprocess.run(
            command, cwd=cwd, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    if done.returncode != 0:
        said = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith(_DOWNLOADING)]
        ends = "\n".join(said[-12:])
        raise errors.Failure(f"{name}: {command[0]} failed ({reach} must be reachable); its log {log} ends:\n{ends}")


def _build(source: Path, tool: Tool, target: Path) -> None:
    """All programs at once, so that what they share is compiled once and they are linked side by side."""
    options = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-tags", tool.tags, "-ldflags", tool.ldflags)
    command = ("go", "build", *options, "-o", f"{target}/", *tool.programs.values())
    logged(tool.module, *command, cwd=source, reach="the Go module proxy", CGO_ENABLED="0", GOGC=_GOGC)
    for name, package in tool.programs.items():
        (target / _built_name(tool, package)).rename(target / name)


def _built_name(tool: Tool, package: str) -> str:
    """What `go build` calls a program: the last part of its path that is not a version."""
    parts = [part for part in package.split("/") if not re.fullmatch(r"v[0-9]+", part)]
    return tool.module if parts == ["."] else parts[-1]
