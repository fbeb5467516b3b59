"""The overview of a branch: what a repository is made of, for a model to read once and again when that changes.

Its version follows from the README, the manifests and the directories of the first two levels: a commit that changes
none of these makes no new overview. Source: seed 001 "GitContinuousIndexer" (Branch Overview).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sources.providers.git import command, history

README_CHARS, MANIFEST_CHARS = 8000, 2000
MOST_MANIFESTS, MOST_DIRECTORIES, MOST_FILES, MOST_RECENT = 8, 150, 100, 20
_DEPTH = 2
_READ_BYTES = 1 << 18
_MODE_FILE = ("100644", "100755")

MANIFESTS: Mapping[str, str] = {
    "pyproject.toml": "Python", "setup.py": "Python", "requirements.txt": "Python", "package.json": "Node.js",
    "go.mod": "Go", "cargo.toml": "Rust", "pom.xml": "Java (Maven)", "build.gradle": "Gradle",
    "build.gradle.kts": "Kotlin (Gradle)", "composer.json": "PHP", "gemfile": "Ruby", "mix.exs": "Elixir",
    "cmakelists.txt": "CMake", "makefile": "Make", "dockerfile": "Docker", "chart.yaml": "Helm",
    "docker-compose.yml": "Docker Compose", "package.swift": "Swift", "build.sbt": "Scala", "flake.nix": "Nix",
}  # fmt: skip
"""Names of files in small letters, and what they stand for."""
_LANGUAGES: Mapping[str, str] = {
    ".py": "Python", ".go": "Go", ".rs": "Rust", ".java": "Java", ".kt": "Kotlin", ".ts": "TypeScript",
    ".tsx": "TypeScript", ".js": "JavaScript", ".jsx": "JavaScript", ".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++",
    ".hpp": "C++", ".cs": "C#", ".rb": "Ruby", ".php": "PHP", ".swift": "Swift", ".scala": "Scala", ".sh": "Shell",
    ".lua": "Lua", ".ex": "Elixir", ".hs": "Haskell", ".sql": "SQL", ".tf": "Terraform", ".md": "Markdown",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Overview:
    """`digest` is the same while nothing material changed."""

    text: str
    digest: str


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    sha: str


def of(clone: Path, sha: str, repository: str, branch: str, *, default: bool) -> Overview:
    """Of the branch at that commit. Raises `Failed`."""
    entries = _tree(clone, sha)
    readme = _readme(entries)
    manifests = [one for one in entries if _depth(one) <= _DEPTH and _name(one) in MANIFESTS][:MOST_MANIFESTS]
    directories = Counter("/".join(one.path.split("/")[:-1][:_DEPTH]) for one in entries)
    directories.pop("", None)
    said = (readme.sha if readme else "", *sorted(one.sha for one in manifests), *sorted(directories))
    digest = hashlib.sha256("\0".join(said).encode()).hexdigest()
    stack = list(dict.fromkeys(MANIFESTS[_name(one)] for one in manifests))
    languages = Counter(_LANGUAGES.get(PurePosixPath(one.path).suffix.lower(), "") for one in entries)
    languages.pop("", None)
    parts = [
        f"Repository {repository}, branch {branch}{' (default)' if default else ''}, {len(entries)} files.",
        f"Tech stack: {', '.join(stack) or 'no known manifest'}.",
        f"Languages by files: {', '.join(f'{name} {n}' for name, n in languages.most_common(12)) or 'none known'}.",
        _section("Directories (files below)", [f"{name}/ ({count})" for name, count in sorted(directories.items())],
                 MOST_DIRECTORIES),
        _section("Files at the top", [one.path for one in entries if "/" not in one.path], MOST_FILES),
        _section("Recent changes", _recent(clone, sha), MOST_RECENT),
    ]  # fmt: skip
    parts += [f"{one.path}:\n{_text(clone, one, MANIFEST_CHARS)}" for one in manifests]
    if readme is not None:
        parts.append(f"{readme.path}:\n{_text(clone, readme, README_CHARS)}")
    return Overview("\n\n".join(part for part in parts if part), digest)


def _tree(clone: Path, sha: str) -> list[_Entry]:
    """Files and symbolic links; submodules are no files."""
    found = []
    for line in command.local(clone, "ls-tree", "-r", "-z", "--full-tree", sha).split(b"\0"):
        head, tab, path = line.partition(b"\t")
        mode, _, rest = head.decode("ascii").partition(" ")
        if tab and mode in _MODE_FILE:
            found.append(_Entry(history.shown(path), rest.rpartition(" ")[2]))
    return found


def _readme(entries: Sequence[_Entry]) -> _Entry | None:
    return next((one for one in entries if "/" not in one.path and _name(one).split(".")[0] == "readme"), None)


def _name(one: _Entry) -> str:
    return one.path.rpartition("/")[2].lower()


def _depth(one: _Entry) -> int:
    return one.path.count("/") + 1


def _recent(clone: Path, sha: str) -> list[str]:
    chosen = (f"--max-count={MOST_RECENT}", "--first-parent", "--format=%cs %an: %s")
    raw = command.local(clone, "log", "-z", *chosen, sha, "--")
    return [history.shown(line)[:200] for line in raw.split(b"\0") if line]


def _text(clone: Path, one: _Entry, most: int) -> str:
    size = int(command.local(clone, "cat-file", "-s", one.sha))
    if size > _READ_BYTES:
        return f"({size} bytes, not read)"
    raw = command.local(clone, "cat-file", "blob", one.sha)
    if b"\0" in raw:
        return "(binary)"
    text = "".join(c for c in raw.decode(errors="replace") if c.isprintable() or c in "\n\t")
    return text if len(text) <= most else f"{text[:most]}\n(cut: {len(text)} characters)"


def _section(title: str, lines: Sequence[str], most: int) -> str:
    if not lines:
        return ""
    more = [f"and {len(lines) - most} more"] if len(lines) > most else []
    return "\n".join((f"{title}:", *(f"- {line}" for line in (*lines[:most], *more))))
