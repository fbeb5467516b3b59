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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hack.cluster import errors, progress

TOOLS = Path(__file__).resolve().parent.parent / "tools"
_KUBERNETES = "v1.34.4"
_VARIABLE = "JERVIS_TEST_KUBERNETES"


@dataclass(frozen=True)
class Tool:
    """A Go module under hack/tools and the programs built from it: {file name: package}."""

    module: str
    programs: dict[str, str]
    ldflags: str = "-s -w"
    version: str = ""
    tags: str = ""


KUBERNETES = Tool(
    "kubernetes",
    {
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl")
    },
    f"-s -w -X k8s.io/component-base/version.gitVersion={_KUBERNETES}",
    _KUBERNETES,
)


def _apiserver(module: str, version: str) -> Tool:
    programs = {"kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver"}
    return Tool(module, programs, f"-s -w -X k8s.io/component-base/version.gitVersion={version}", version)


# The oldest Kubernetes that the chart takes and the newest that can be built, for `make test-versions`.
APISERVERS = {
    "": KUBERNETES,
    "oldest": _apiserver("kubernetes-oldest", "v1.31.0"),
    "newest": _apiserver("kubernetes-newest", "v1.37.2"),
}
ETCD = Tool("etcd", {"etcd": "go.etcd.io/etcd/server/v3"})
HELM = Tool("helm", {"helm": "helm.sh/helm/v3/cmd/helm"})
COREDNS = Tool("coredns", {"coredns": "github.com/coredns/coredns"})
WEAVIATE = Tool("weaviate", {"weaviate-server": "github.com/weaviate/weaviate/cmd/weaviate-server"})
KUBECONFORM = Tool("kubeconform", {"kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform"})
# Without the discovery of targets in clouds, which is most of it.
PROMTOOL = Tool("prometheus", {"promtool": "github.com/prometheus/prometheus/cmd/promtool"}, tags="remove_all_sd")
PAUSE = Tool("pause", {"pause": "."})
ALL = (ETCD, KUBERNETES, PAUSE, COREDNS, WEAVIATE, HELM, KUBECONFORM, PROMTOOL)


def cache() -> Path:
    """`${XDG_CACHE_HOME:-~/.cache}/jervis`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jervis"


def apiserver() -> Tool:
    """The Kubernetes whose kube-apiserver stands alone in tests: `JERVIS_TEST_KUBERNETES` is oldest, newest or unset.

    Raises errors.Missing for another word.
    """
    wanted = os.environ.get(_VARIABLE, "")
    if wanted not in APISERVERS:
        raise errors.Missing(f"{_VARIABLE}={wanted}: unset it, or give one of {', '.join(filter(None, APISERVERS))}")
    return APISERVERS[wanted]


def program(tool: Tool, name: str, report: progress.Progress) -> Path:
    """The path of one program of `tool`, built first if the cache lacks the tool.

    Raises errors.Missing without Go, errors.Failure when the build fails (the compiler's output is on the terminal).
    """
    return directory(tool, report) / name


def directory(tool: Tool, report: progress.Progress) -> Path:
    """The directory with all programs of `tool`."""
    source = TOOLS / tool.module
    sources = [source / "go.mod", source / "go.sum", *sorted(source.glob("*.go"))]
    salt = f"{go_version()} {tool.ldflags} {sorted(tool.programs)}{tool.tags}"
    found = cache() / "tools" / f"{tool.module}-{digest(sources, salt)}"
    text = f"building {', '.join(tool.programs)}"
    return build_once(found, report, text, lambda scratch: _build(source, tool, scratch))


def digest(files: list[Path], salt: str) -> str:
    """16 hex digits over the contents of `files` (in this order) and `salt`."""
    hashed = hashlib.sha256(salt.encode())
    for file in files:
        hashed.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return hashed.hexdigest()[:16]


def build_once(target: Path, report: progress.Progress, text: str, make: Callable[[Path], None]) -> Path:
    """`target`, filled by `make(scratch)` if it is not there; a second caller waits for the first."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
            try:
                with report.step(text):
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


def _build(source: Path, tool: Tool, target: Path) -> None:
    """All programs at once, so that what they share is compiled once and they are linked side by side."""
    options = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-tags", tool.tags, "-ldflags", tool.ldflags)
    built = subprocess.run(
        ["go", "build", *options, "-o", f"{target}/", *tool.programs.values()],
        cwd=source,
        env={**os.environ, "CGO_ENABLED": "0"},
    )
    if built.returncode != 0:
        raise errors.Failure(
            f"building {tool.module} failed; see the lines above (the Go module proxy must be reachable)"
        )
    for name, package in tool.programs.items():
        (target / _built_name(tool, package)).rename(target / name)


def _built_name(tool: Tool, package: str) -> str:
    """What `go build` calls a program: the last part of its path that is not a version."""
    parts = [part for part in package.split("/") if not re.fullmatch(r"v[0-9]+", part)]
    return tool.module if parts == ["."] else parts[-1]
