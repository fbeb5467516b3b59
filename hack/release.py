"""`python -m hack.release`: everything that a release publishes, built from the commit that is checked out, into dist/.

| file | what |
| --- | --- |
| `jervis-VERSION-py3-none-any.whl` | the packages, and the commands `kubectl-jervis` and `jervis-kb` |
| `jervis-VERSION.tgz` | the Helm chart |
| `jervis-VERSION-linux-ARCH.oci.tar` | the image `jervis:VERSION` as an OCI archive (`skopeo copy`, `podman load`) |
| `jervis-VERSION.cdx.json` | CycloneDX bill of materials: the Python libraries, the image's Debian packages |
| `SHA256SUMS` | of all of them |

The version is `project.version` of pyproject.toml; the chart must say the same. What is past its end of life by
docs/dependencies.md, or near it, is named and hinders no release.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from hack import versions
from hack.cluster import binaries, errors, progress
from hack.image import packages

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("wheel", "chart", "image", "sbom")
_UV = ROOT / ".venv" / "bin" / "uv"
_PINNED = re.compile(r"@sha256:[0-9a-f]{64}$")
_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}


def main(arguments: list[str], today: date) -> int:
    """Exit status: 0 dist/ holds the release, 1 not (one line on stderr says why)."""
    parser = argparse.ArgumentParser(prog="python -m hack.release", description=__doc__.splitlines()[0])
    parser.add_argument("--trial", action="store_true", help="also from a checkout that no release may come from")
    parser.add_argument("--without", nargs="*", choices=PARTS, default=[], help="leave parts out (image needs root)")
    parser.add_argument(
        "--base", default="", metavar="NAME@sha256:DIGEST", help="the image beneath, instead of a bootstrapped Debian"
    )
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="emptied first [default: dist]")
    parsed = parser.parse_args(arguments)
    report = progress.Progress()
    try:
        with tempfile.TemporaryDirectory(prefix="jervis-release-") as scratch:
            source = exported(ROOT, Path(scratch) / "source")
            version = agreed_version(source)
            for line in outdated(source, today):
                report.say(line)
            problems = obstacles(ROOT, source, version)
            if parsed.base and not _PINNED.search(parsed.base):
                problems.append(f"--base {parsed.base} is not named with its digest (NAME@sha256:...)")
            for problem in problems:
                report.say(f"not fit for a release: {problem}")
            if problems and not parsed.trial:
                raise errors.Failure("nothing was built; --trial builds all the same")
            commit = _output(["git", "rev-parse", "HEAD"], cwd=ROOT).strip()
            parts = set(PARTS) - set(parsed.without)
            _build(source, parsed.dist, version, commit, parts, report, parsed.base)
    except errors.Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return 0


def exported(checkout: Path, target: Path) -> Path:
    """The files of HEAD below `target`, so that nothing untracked or changed gets into a release."""
    target.mkdir(parents=True)
    archive = target.parent / "source.tar"
    _run(["git", "archive", "-o", str(archive), "HEAD"], cwd=checkout)
    _run(["tar", "-xf", str(archive), "-C", str(target)])
    return target


def agreed_version(source: Path) -> str:
    """The one version of pyproject.toml, towncrier and the chart. Raises errors.Failure when they differ."""
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
    chart = (source / "charts/jervis/Chart.yaml").read_text(encoding="utf-8")
    said = {
        "pyproject.toml project.version": project["project"]["version"],
        "pyproject.toml tool.towncrier.version": project["tool"]["towncrier"]["version"],
        **{
            f"Chart.yaml {name}": next(iter(re.findall(rf"^{name}: *[\"']?([^\s\"']+)", chart, re.MULTILINE)), "")
            for name in ("version", "appVersion")
        },
    }
    if len(set(said.values())) > 1:
        raise errors.Failure("the versions differ: " + ", ".join(f"{where} {what}" for where, what in said.items()))
    version: str = project["project"]["version"]
    return version


def obstacles(checkout: Path, source: Path, version: str) -> list[str]:
    """Why no release may come from this checkout, one line each."""
    found = []
    if _output(["git", "status", "--porcelain"], cwd=checkout):
        found.append("there are changes that are not committed; they would be left out")
    if f"v{version}" not in _output(["git", "tag", "--points-at", "HEAD"], cwd=checkout).split():
        found.append(f"the commit has no tag v{version}")
    changelog = (source / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE):
        found.append(f"CHANGELOG.md has no section `## {version} (YYYY-MM-DD)`")
    sections = re.findall(rf"^## {re.escape(version)}(?= |$).*", changelog, re.MULTILINE)
    if len(sections) > 1:
        found.append(f"CHANGELOG.md has {len(sections)} sections of {version}: {', '.join(sections)}")
    left = [path.name for path in (source / "changelog.d").glob("*.md") if path.name != "README.md"]
    if left:
        found.append(f"{len(left)} fragments of changelog.d are not in CHANGELOG.md: towncrier build")
    return found


def outdated(source: Path, today: date) -> list[str]:
    """What is past its end of life or near it, one line each. It hinders no release: the page says why it stays."""
    return versions.findings((source / "docs/dependencies.md").read_text(encoding="utf-8"), today)


def wheel(source: Path, dist: Path) -> Path:
    """The wheel; the same bytes for the same source."""
    code = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    _run([sys.executable, "-c", code, str(dist.absolute())], cwd=source, more={"SOURCE_DATE_EPOCH": "315532800"})
    return next(dist.glob("*.whl"))


def chart(source: Path, dist: Path, helm: Path) -> Path:
    """The packaged chart."""
    _run([str(helm), "package", str(source / "charts/jervis"), "--destination", str(dist)])
    return next(dist.glob("*.tgz"))


def image(source: Path, dist: Path, version: str, commit: str, report: progress.Progress, base: str = "") -> Path:
    """The image as an OCI archive, built by hack.image from HEAD's files, which are those of `commit`, on `base`."""
    from hack.image.store import Store

    machine = os.uname().machine
    target = dist / f"jervis-{version}-linux-{_ARCHITECTURE.get(machine, machine)}.oci.tar"
    # The exported files are built, not the checkout: their own copy of hack.image takes the folder around it. A cluster
    # or an image of the caller's own has no part in it.
    own = {**os.environ, "PYTHONPATH": str(source), "IMAGE": "", "KUBECONFIG": ""}
    beneath = ("--base", base) if base else ()
    command = [sys.executable, "-m", "hack.image", "--build-only", "--revision", commit, *beneath, "jervis"]
    built = subprocess.run(command, cwd=source, env=own)
    if built.returncode != 0:
        raise errors.Failure("the image was not built; see above (--without image leaves it out)")
    store = Store.of_user()
    with store.exclusive(), report.step("writing the OCI archive"):
        store.buildah("push", "-q", "localhost/jervis:dev", f"oci-archive:{target}:jervis:{version}")
    return target


def sbom(source: Path, dist: Path, version: str, report: progress.Progress) -> Path:
    """The bill of materials of the wheel, installed with the locked libraries into an environment of its own."""
    target = dist / f"jervis-{version}.cdx.json"
    generator = _generator(report)
    with tempfile.TemporaryDirectory(prefix="jervis-sbom-") as place:
        python = _environment(Path(place) / "runtime", source / "requirements/runtime.txt")
        _run([str(_UV), "pip", "install", "-q", "--python", str(python), "--no-deps", str(wheel(source, Path(place)))])
        options = ("--output-reproducible", "--of", "JSON", "--mc-type", "application", "-o", str(target))
        project = ("--pyproject", str(source / "pyproject.toml"))
        _run([str(generator), "-m", "cyclonedx_py", "environment", *project, *options, str(python)])
    return target


def sums(dist: Path) -> Path:
    """SHA256SUMS of every other file in `dist`, in the form of sha256sum."""
    target = dist / "SHA256SUMS"
    lines = [f"{_digest(path)}  {path.name}\n" for path in sorted(dist.iterdir()) if path != target]
    target.write_text("".join(lines), encoding="utf-8")
    return target


def _build(
    source: Path, dist: Path, version: str, commit: str, parts: set[str], report: progress.Progress, base: str
) -> None:
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    if "wheel" in parts:
        with report.step("building the wheel"):
            wheel(source, dist)
    if "chart" in parts:
        chart(source, dist, binaries.program(binaries.HELM, "helm", report))
    if "sbom" in parts:
        with report.step("writing the bill of materials"):
            bill = sbom(source, dist, version, report)
    if "image" in parts:
        archive = image(source, dist, version, commit, report, base)
        if "sbom" in parts:
            packages.add(archive, bill)
    sums(dist)
    for path in sorted(dist.iterdir()):
        print(f"{path.stat().st_size:>12}  {path.name}")


def _generator(report: progress.Progress) -> Path:
    """A Python that has cyclonedx-bom, installed once per lock file."""
    lock = ROOT / "requirements" / "release.txt"
    target = binaries.cache() / "tools" / f"cyclonedx-{binaries.digest([lock], sys.version)}"
    made = binaries.build_once(target, report, "installing cyclonedx-bom", lambda scratch: _filled(scratch, lock))
    return made / "bin" / "python"


def _filled(scratch: Path, lock: Path) -> None:
    _environment(scratch, lock)


def _environment(place: Path, lock: Path) -> Path:
    """A new virtual environment with what `lock` pins; its Python."""
    _run([str(_UV), "venv", "-q", "--allow-existing", "--python", sys.executable, str(place)])
    python = place / "bin" / "python"
    _run([str(_UV), "pip", "install", "-q", "--python", str(python), "--require-hashes", "--no-deps", "-r", str(lock)])
    return python


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _output(command: list[str], cwd: Path) -> str:
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def _run(command: list[str], cwd: Path | None = None, more: Mapping[str, str] | None = None) -> None:
    """Raises errors.Failure with the end of what the command printed."""
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **(more or {})}, capture_output=True, text=True)
    if done.returncode != 0:
        raise errors.Failure(f"{' '.join(command[:4])} ...: {(done.stderr or done.stdout).strip()[-600:]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], date.today()))
