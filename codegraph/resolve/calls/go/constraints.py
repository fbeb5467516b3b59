"""Build constraints of Go files: by the end of the name and the `//go:build` line.

Source: https://pkg.go.dev/cmd/go#hdr-Build_constraints
"""

from __future__ import annotations

import re

_SYSTEMS = frozenset([
    "aix", "android", "darwin", "dragonfly", "freebsd", "illumos", "ios", "js", "linux", "netbsd", "openbsd",
    "plan9", "solaris", "wasip1", "windows", "zos", "hurd", "nacl"
])  # fmt: skip
_MACHINES = frozenset([
    "386", "amd64", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64", "ppc64le",
    "riscv64", "s390x", "wasm", "ppc", "sparc64"
])  # fmt: skip
_TRUE = frozenset(["linux", "amd64", "unix", "gc", "cgo"])
NEWEST = 26
"""The release of Go whose build constraints hold: 1.26."""
_LINE = re.compile(rb"^//go:build[ \t]+(.+)$", re.MULTILINE)
_TOKEN = re.compile(r"\(|\)|&&|\|\||!|[\w.]+")


def written(source: bytes) -> str:
    """The expression of the `//go:build` line before the package clause."""
    head = source[: source.find(b"\npackage ") + 1] or source[:2000]
    found = _LINE.search(head)
    return found[1].decode(errors="replace").strip() if found else ""


def constraint(path: str, build: str) -> tuple[str, bool]:
    """What restricts the build of a file, as text, and whether a plain build for linux/amd64 has it."""
    stem = path.rpartition("/")[2].removesuffix(".go").removesuffix("_test")
    parts = stem.split("_")[1:]
    names = [part for part in parts[-2:] if part in _SYSTEMS or part in _MACHINES]
    if names and parts[-1] not in names:
        names = []
    is_default = all(name in _TRUE for name in names) and (not build or _holds(_TOKEN.findall(build)))
    return " && ".join([*names, *([build] if build else [])]), is_default


def _holds(tokens: list[str]) -> bool:
    """Evaluates `||` over `&&` over `!` and brackets."""

    def any_of() -> bool:
        found = all_of()
        while tokens and tokens[0] == "||":
            tokens.pop(0)
            found = all_of() or found
        return found

    def all_of() -> bool:
        found = one()
        while tokens and tokens[0] == "&&":
            tokens.pop(0)
            found = one() and found
        return found

    def one() -> bool:
        word = tokens.pop(0) if tokens else ""
        if word == "!":
            return not one()
        if word == "(":
            found = any_of()
            if tokens:
                tokens.pop(0)
            return found
        return word in _TRUE or (word.startswith("go1.") and int(word[4:].partition(".")[0] or 0) <= NEWEST)

    return any_of()
