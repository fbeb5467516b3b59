"""`python -m hack.changed [SINCE]`: the test files that a change can break, one on a line.

Changed is what Git says differs from the commit SINCE (by default where this branch left its upstream, otherwise HEAD),
with what is not committed or not tracked. A test file can be broken by itself, by every module that it imports,
directly or not, wherever in a module the import stands, and by the conftest.py of its folders. A string that is a
module's name or path (but not that of a test) counts as an import, one word alone where programs are started: they, and
modules that are loaded late, are named so. A file that is no module belongs to the package whose folder it is in;
outside of the packages it can break the tests of the chart and of the repository and whatever has the name of its top
folder between quotation marks, and what pins a version or configures pytest can break all.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
_ALL = ("pyproject.toml", "requirements/", "tests/conftest.py", "hack/cluster/", "hack/tools/")
_STARTS = ("nursery", "subprocess", "sys.executable")
"""A module with one of these words starts programs, which it may name by one word."""
_OUTSIDE = ("tests/chart/", "tests/repository/", "tests/hack/")


def modules(paths: Iterable[str]) -> dict[str, str]:
    """Name of each module by its path, `a/b/__init__.py` as `a.b`."""
    named = {}
    for path in paths:
        if path.endswith(".py"):
            parts = PurePosixPath(path).with_suffix("").parts
            named[path] = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return named


def imported(source: str, module: str, known: frozenset[str]) -> Iterator[str]:
    """The modules of ours that a module names: by imports, and by strings."""
    starts = any(word in source for word in _STARTS)
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*module.split(".")[: -node.level], *filter(None, [base])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.removesuffix(".py").replace("/", ".")
            if starts or "." in name:
                names = [name, f"{name}.__main__", f"{name}.main"]
                names = [name for name in names if name in known and ".test_" not in name]
        for name in names:
            while name:
                if name in known:
                    yield name
                name = name.rpartition(".")[0]


class Tree:
    """Who imports whom. `sources` are the texts of all modules by their paths, `removed` the paths of those that are
    gone."""

    def __init__(self, sources: Mapping[str, str], removed: Iterable[str] = ()) -> None:
        self._sources = sources
        self._names = modules([*sources, *removed])
        self._known = frozenset(self._names.values())
        self._users: defaultdict[str, set[str]] = defaultdict(set)
        for path, source in sources.items():
            for name in imported(source, self._names[path], self._known):
                self._users[name].add(self._names[path])
            for folder in PurePosixPath(path).parents:
                if (configuration := f"{folder}/conftest.py") in sources:
                    self._users[self._names[configuration]].add(self._names[path])

    def breakable(self, changed: Iterable[str], *, through: str = "") -> list[str]:
        """The test files that `changed` paths can break; only by way of modules whose names begin with `through`."""
        tests = sorted(path for path in self._sources if PurePosixPath(path).name.startswith("test_"))
        names: list[str] = []
        chosen: set[str] = set()
        for path in changed:
            if path.startswith(_ALL):
                return tests
            if path in self._names:
                names.append(self._names[path])
            elif (package := _package(path, self._known)) is not None:
                names.extend(name for name in self._known if name == package or name.startswith(f"{package}."))
            else:
                chosen.update(test for test in tests if test.startswith(_OUTSIDE))
                top = f'"{PurePosixPath(path).parts[0]}"'
                names.extend(self._names[user] for user, source in self._sources.items() if top in source)
        broken = set(names)
        while names:
            for user in self._users[names.pop()] - broken:
                if user.startswith(through):
                    broken.add(user)
                    names.append(user)
        return [test for test in tests if test in chosen or self._names[test] in broken]


def _package(path: str, known: frozenset[str]) -> str | None:
    """The package of a file that is no module; None: it is in none."""
    for folder in PurePosixPath(path).parents:
        name = ".".join(folder.parts)
        if name in known:
            return name
    return None


def checkout(removed: Iterable[str] = ()) -> Tree:
    """The modules of this checkout, those that are not tracked yet as well."""
    paths = _git("ls-files", "--cached", "--others", "--exclude-standard", "*.py")
    return Tree({path: (ROOT / path).read_text() for path in paths if (ROOT / path).is_file()}, removed)


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def main(arguments: list[str]) -> int:
    """Print the files; a sentence on standard error says of how many."""
    since = arguments[0] if arguments else next(iter(_git("merge-base", "HEAD", "@{upstream}")), "HEAD")
    if not _git("rev-parse", "--verify", f"{since}^{{commit}}"):
        print(f"error: {since} is no commit", file=sys.stderr)
        return 1
    changed = [*_git("diff", "--name-only", "--no-renames", since), *_git("ls-files", "--others", "--exclude-standard")]
    tests = checkout([path for path in changed if not (ROOT / path).is_file()]).breakable(changed)
    print("\n".join(tests))
    print(f"{len(changed)} files differ from {since[:10]}: {len(tests)} files of tests", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
