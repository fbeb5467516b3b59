"""A real Gitea for the tests of sources and for the demonstration, built from its Go module.

`python -m hack.gitea` prints its directory. Beside the program are the templates and options that it serves from
STATIC_ROOT_PATH. Its driver of SQLite is C. It takes minutes,
once: it is kept in the user's cache like the cluster's tools.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from hack.cluster import binaries, certificates, errors, prerequisites, progress

SOURCE = binaries.TOOLS / "gitea"
PACKAGE = "code.gitea.io/gitea"
SECONDS = 200.0
CONFIG = """
APP_NAME = Gitea
RUN_MODE = prod
RUN_USER = {user}
WORK_PATH = {folder}
[server]
HTTP_ADDR = {address}
HTTP_PORT = {port}
{tls}
ROOT_URL = {root}
STATIC_ROOT_PATH = {folder}/static
APP_DATA_PATH = {folder}/data
OFFLINE_MODE = true
DISABLE_SSH = true
[database]
DB_TYPE = sqlite3
PATH = {folder}/data/gitea.db
[repository]
ROOT = {folder}/repositories
[security]
INSTALL_LOCK = true
SECRET_KEY = of-the-test
INTERNAL_TOKEN = eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJuYmYiOjE1MDAwMDAwMDB9.Zm9yLXRoZS10ZXN0LW9ubHktbm90aGluZy1lbHNl
[oauth2]
JWT_SECRET = b2YtdGhlLXRlc3Qtb2YtdGhlLXRlc3Qtb2YtdGhlLXQ
[indexer]
ISSUE_INDEXER_TYPE = db
[queue]
TYPE = channel
[cron]
ENABLED = false
[service]
DISABLE_REGISTRATION = true
[log]
MODE = file
LEVEL = warn
ROOT_PATH = {folder}/log
"""
"""Of an instance with SQLite. Source: docs.gitea.com, "Configuration Cheat Sheet"."""
_TAGS = "sqlite sqlite_unlock_notify"
_STATIC = ("templates", "options")


def place() -> Path:
    """The directory with the program `gitea`, `templates` and `options`, or where it will be. Raises errors.Missing."""
    files = [SOURCE / "go.mod", SOURCE / "go.sum"]
    return binaries.cache() / "tools" / f"gitea-{binaries.digest(files, f'{binaries.go_version()}{_TAGS}')}"


def pending_seconds() -> float:
    """What its build takes, 0 when the cache has it."""
    return 0.0 if place().exists() else SECONDS


def directory(report: progress.Progress) -> Path:
    """`place`, built first if the cache lacks it. Raises errors.Missing or errors.Failure with the remedy."""
    prerequisites.install(prerequisites.C, report)
    return binaries.build_once(place(), report, "building gitea (minutes, once)", _build, SECONDS)


def lay_out(
    folder: Path, address: str, port: int, *, user: str, root: str, tls: certificates.Pair | None = None
) -> Path:
    """Lay out `folder`, an empty one, for an instance that runs as `user` (it refuses root); the path of its
    configuration. `root` is the URL that it gives of itself. Raises errors.Missing."""
    built = place()
    if not built.exists():
        raise errors.Missing("Gitea is missing: make gitea")
    folder.chmod(0o711)
    try:
        os.link(built / "gitea", folder / "gitea")
    except OSError:
        shutil.copyfile(built / "gitea", folder / "gitea")
        (folder / "gitea").chmod(0o755)
    for part in _STATIC:
        shutil.copytree(built / part, folder / "static" / part)
    (folder / "static" / "public").mkdir()
    config = folder / "app.ini"
    secure = f"PROTOCOL = https\nCERT_FILE = {folder}/server.crt\nKEY_FILE = {folder}/server.key" if tls else ""
    config.write_text(CONFIG.format(folder=folder, address=address, port=port, user=user, root=root, tls=secure))
    mine = [folder, config]
    for name in ("data", "repositories", "log", "custom"):
        (folder / name).mkdir()
        mine.append(folder / name)
    for source, name in ((tls.certificate, "server.crt"), (tls.key, "server.key")) if tls else ():
        shutil.copy(source, folder / name)
        mine.append(folder / name)
    if os.getuid() == 0:
        for path in mine:
            shutil.chown(path, user)
    return config


def _build(scratch: Path) -> None:
    # Other work goes first.
    command = ["nice", "-n", "15", "go", "build", "-trimpath", "-mod=readonly", "-tags", _TAGS, "-ldflags", "-s -w"]
    target = str(scratch / "gitea")
    binaries.logged("gitea", *command, "-o", target, PACKAGE, cwd=SOURCE, reach="the Go module proxy", CGO_ENABLED="1")
    listed = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", PACKAGE], cwd=SOURCE, check=True, capture_output=True, text=True
    )
    for name in _STATIC:
        shutil.copytree(Path(listed.stdout.strip()) / name, scratch / name, copy_function=shutil.copyfile)
    # Modules are kept read-only; the copies are not.
    for folder, _, _ in os.walk(scratch):
        Path(folder).chmod(0o755)


def main() -> int:
    """Build and print the directory; one line on stderr when that cannot be done."""
    try:
        print(directory(progress.Progress()))
    except (errors.Missing, errors.Failure) as error:
        print(f"no real Gitea: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
