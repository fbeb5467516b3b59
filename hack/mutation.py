"""`python -m hack.mutation`: how many small mistakes in the product's rules the unit tests notice.

cosmic-ray makes the mistakes (`requirements/mutation.txt`, in an environment of its own): one operator at one place of
a module. Of all that it can make in MODULES a sample is drawn by a seed, so the same numbers meet the same mistakes as
long as these modules stay as they are. For each of them the unit tests run that import the module, directly or by a
helper; a mistake with which they all pass has survived. Each worker has a copy of the last commit.

    python -m hack.mutation --mutants 400 --seed 1 > before.json

Printed is one JSON document: {"killed", "survived", "mutants": [{"module", "operator", "line", "killed"}]}.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import threading
import venv
from pathlib import Path
from typing import Any

from hack import changed
from hack.cluster import binaries, errors, progress

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "mutation.txt"
MODULES = (
    "clients/backoff.py",
    "controllers/backpressure.py",
    "controllers/breaker.py",
    "controllers/pendingtask/policy/*.py",
    "controllers/pendingtask/slots/*.py",
    "router/ageing.py",
    "router/allotment.py",
    "router/priority.py",
    "router/queue.py",
    "router/scheduler.py",
    "router/selection.py",
    "kb/ingest/*.py",
    "orchestrator_job/effects/ledger.py",
)
_UNIT = "not apiserver and not services and not e2e"
_NOTHING = 5
"""pytest's status where no test is left: nothing notices the mistake."""
_SECONDS = 300.0
"""After which a mistake counts as noticed: the tests do not end with it."""
_MAKE = """
import json, random, sys
from pathlib import Path
from cosmic_ray import plugins
from cosmic_ray.ast import Visitor, get_ast
from cosmic_ray.mutating import mutate_code

class Places(Visitor):
    def __init__(self, operator):
        self.operator, self.lines = operator, []
    def visit(self, node):
        self.lines += [start[0] for start, _ in self.operator.mutation_positions(node)]
        return node

seed, number, *paths = sys.argv[1:]
places = []
for path in sorted(paths):
    tree = get_ast(Path(path).read_text())
    for name in sorted(plugins.operator_names()):
        # An operator with arguments wants names; a `|` is one of annotations, which nothing evaluates.
        if plugins.get_operator(name).arguments() or "_BitOr_" in name:
            continue
        visitor = Places(plugins.get_operator(name)())
        visitor.walk(tree)
        places += [(path, name, nth, line) for nth, line in enumerate(visitor.lines)]
print(len(places), "places", file=sys.stderr)
for path, name, nth, line in random.Random(int(seed)).sample(places, min(int(number), len(places))):
    code = mutate_code(Path(path).read_text(), plugins.get_operator(name)(), nth)
    print(json.dumps({"module": path, "operator": name, "line": line, "code": code}))
"""


def python(report: progress.Progress) -> Path:
    """The Python that has cosmic-ray. Raises errors.Failure."""
    target = binaries.cache() / "tools" / f"mutation-{binaries.digest([LOCK], sys.version)}"
    return binaries.build_once(target, report, "installing cosmic-ray", _install) / "bin" / "python"


def _install(scratch: Path) -> None:
    venv.create(scratch, with_pip=False, symlinks=True)
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(scratch / "bin" / "python")]
    if subprocess.run([*command, "--require-hashes", "-r", str(LOCK)]).returncode != 0:
        raise errors.Failure("installing cosmic-ray failed; see the lines above (PyPI must be reachable)")


def near(module: str, tree: changed.Tree) -> list[str]:
    """The files with unit tests that import a module, directly or by helpers of the tests."""
    return [test for test in tree.breakable([module], through="tests.") if not test.startswith("tests/e2e/")]


class Run:
    """Workers that take mutants until there are none."""

    def __init__(self, mutants: list[dict[str, Any]], tests: dict[str, list[str]], report: progress.Progress) -> None:
        self._open = collections.deque(mutants)
        self._tests = tests
        self._report = report
        self._number = len(mutants)
        self.ended: list[dict[str, Any]] = []

    def work(self, folder: Path) -> None:
        """In a copy of the last commit."""
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(folder)], check=True)
        while True:
            try:
                mutant = self._open.popleft()
            except IndexError:
                return
            path = folder / mutant["module"]
            whole = path.read_text()
            path.write_text(mutant.pop("code"))
            self.ended.append({**mutant, "killed": not self._passes(folder, mutant["module"])})
            path.write_text(whole)
            killed = sum(each["killed"] for each in self.ended)
            self._report.say(f"{len(self.ended)} of {self._number} mutants: {killed} noticed")

    def _passes(self, folder: Path, module: str) -> bool:
        # By the markers of the phase: another test would start a cluster in place of the one that runs.
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", _UNIT]
        command.extend(self._tests[module])
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        try:
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode in (0, _NOTHING)


def main(arguments: list[str]) -> int:
    """Make mutants, run the tests, print the score."""
    parser = argparse.ArgumentParser(prog="python -m hack.mutation", description=__doc__)
    parser.add_argument("--mutants", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parsed = parser.parse_args(arguments)
    report = progress.Progress()
    tree = changed.checkout()
    paths = [path.relative_to(ROOT).as_posix() for pattern in MODULES for path in sorted(ROOT.glob(pattern))]
    tests = {path: near(path, tree) for path in paths if path.rpartition("/")[2] != "__init__.py"}
    tested = [path for path, files in tests.items() if files]
    for path in sorted(tests.keys() - set(tested)):
        report.say(f"no unit test imports {path}")
    command = [str(python(report)), "-c", _MAKE, str(parsed.seed), str(parsed.mutants), *tested]
    lines = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    run = Run([json.loads(line) for line in lines], tests, report)
    with tempfile.TemporaryDirectory() as folder:
        workers = [threading.Thread(target=run.work, args=(Path(folder, str(n)),)) for n in range(parsed.workers)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    killed = sum(mutant["killed"] for mutant in run.ended)
    mutants = sorted(run.ended, key=lambda mutant: (mutant["module"], mutant["line"], mutant["operator"]))
    document = {"killed": killed, "survived": len(mutants) - killed, "seed": parsed.seed, "mutants": mutants}
    print(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
