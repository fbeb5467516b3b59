"""A workspace on disk: unpacked for a command, and compared with its original afterwards.

The original stays in a folder that the command does not see. Git compares two trees of a repository of its own beside
both, so that nothing in the workspace is configuration; what its .gitignore names, and was not there before, is left
out of the patch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from crds import errors


class Unusable(errors.Permanent):
    """There is no result; the text is for the agent."""


def unpack(archive: Path, target: Path) -> None:
    """Unpack a tar.gz below `target`: files, folders, and links within; links to elsewhere and devices are left out.
    Raises Unusable."""
    root = Path(os.path.realpath(target))

    def within(path: Path) -> bool:
        # Not `Path.resolve`, which raises for links in a circle.
        return Path(os.path.realpath(path)).is_relative_to(root)

    try:
        # Not `extractall`: the Python of the image (3.11.2) has no filters.
        with tarfile.open(archive, "r:gz") as found:
            for one in found:
                path = target / one.name
                if not within(path.parent):
                    raise Unusable(f"The workspace cannot be unpacked: {one.name!r} would be outside of it.")
                if one.isdir():
                    path.mkdir(parents=True, exist_ok=True)
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                content = found.extractfile(one) if one.isfile() else None
                if content is not None:
                    # A file that is there, as a link, is not written through.
                    with content, path.open("xb") as written:
                        shutil.copyfileobj(content, written)
                    path.chmod(0o755 if one.mode & 0o100 else 0o644)
                elif one.issym() and within(path.parent / one.linkname):
                    path.symlink_to(one.linkname)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise Unusable(f"The workspace cannot be unpacked: {error}") from error


def patch(archive: Path, after: Path, scratch: Path, most: int) -> bytes:
    """What is different in `after`, as `git diff --binary` writes it; empty without a change. `scratch` is the caller's
    own folder. Raises Unusable, also for a patch of more than `most` bytes."""
    before = scratch / "before"
    before.mkdir()
    unpack(archive, before)
    for nested in [path for path in _folders(after) if path.name == ".git"]:
        # A repository within would be one entry of the tree, and its settings Git's.
        shutil.rmtree(nested) if not nested.is_symlink() else nested.unlink()
    repository = scratch / "compare"
    _git(repository, before, "init", "-q", str(repository))
    trees = []
    for folder, words in ((before, ("add", "-A", "-f", ".")), (after, ("add", "-A", "."))):
        _git(repository, folder, *words)
        trees.append(_git(repository, folder, "write-tree").decode().strip())
    flags = ("-r", "-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-renames")
    found = _git(repository, before, "diff-tree", *flags, *trees)
    if len(found) > most:
        raise Unusable(f"The command changed more than {most} bytes of patch hold; it should write less, or to /tmp.")
    return found


def _folders(root: Path) -> Sequence[Path]:
    found: list[Path] = []
    for folder, names, files in os.walk(root):
        found += [Path(folder) / name for name in (*names, *(one for one in files if one == ".git"))]
        names[:] = [name for name in names if name != ".git" and not (Path(folder) / name).is_symlink()]
    return [path for path in found if path.is_dir() or path.name == ".git"]


def _git(repository: Path, folder: Path, *words: str) -> bytes:
    settings = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/nowhere", "-c", "core.autocrlf=false")
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(repository.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_OPTIONAL_LOCKS": "0",
        **({} if words[0] == "init" else {"GIT_DIR": str(repository / ".git"), "GIT_WORK_TREE": str(folder)}),
    }
    git = ["git", *settings, *words]
    # No shell; the words are ours, and the program is the image's.
    done = subprocess.run(git, cwd=folder, env=environment, capture_output=True, timeout=300, check=False)  # noqa: S603
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[:500]
        raise Unusable(f"The changes cannot be read (git {words[0]}): {said}")
    return done.stdout
