"""Measure two versions of the operator in one run, in turns, each with its own harness.

    eval "$(python -m hack.cluster env)"
    python -m bench.operator.compare --base 3a6d0c6 lifecycle qualification dispatch memory restart --rounds 3

`--base` is a commit of this repository; it is checked out into a temporary worktree. What a mechanism brings is
measured with a base that leaves it out, so that no setting exists for the measurement only. Both versions run in this
interpreter's environment, so a base with other dependencies cannot be compared. One JSON document on stdout: for each
figure the median of the rounds of either version, and this version's divided by the base's. A case that only one of the
two knows is measured there alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CASE_SECONDS = 1800


def main(arguments: list[str]) -> int:
    """Run the cases; 0 when each was measured in this version."""
    parser = argparse.ArgumentParser(prog="python -m bench.operator.compare", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--base", required=True, help="commit to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parsed = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-base-") as directory:
        base = Path(directory) / "base"
        _git("worktree", "add", "--detach", str(base), parsed.base)
        try:
            found = {case: _case(case, base, parsed.rounds, parsed.cores) for case in parsed.cases}
        finally:
            _git("worktree", "remove", "--force", str(base))
    print(json.dumps({"base": parsed.base, "rounds": parsed.rounds, "cores": parsed.cores, "cases": found}, indent=2))
    return 0 if all(case["measured"] for case in found.values()) else 1


def _case(case: str, base: Path, rounds: int, cores: int) -> dict[str, Any]:
    measured: dict[str, list[dict[str, float]]] = {"base": [], "here": []}
    for number in range(rounds):
        # The version that begins alternates: a machine that slows down must not favour one of them.
        order = (("base", base), ("here", ROOT))
        for name, root in order if number % 2 == 0 else reversed(order):
            figures = _flat_figures(case, root, cores)
            if figures is not None:
                measured[name].append(figures)
            print(f"{case} round {number + 1} {name}: {json.dumps(figures)}", file=sys.stderr, flush=True)
    medians = {name: _medians(samples) for name, samples in measured.items()}
    ratios = {
        key: round(value / medians["base"][key], 3)
        for key, value in medians["here"].items()
        if medians["base"].get(key)
    }
    return {"measured": bool(measured["here"]), **medians, "here_per_base": ratios}


def _flat_figures(case: str, root: Path, cores: int) -> dict[str, float] | None:
    """The figures of one case, flat; None when this version does not have it."""
    command = [sys.executable, "-m", "bench.operator", case, "--cores", str(cores)]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=CASE_SECONDS)
    try:
        document = json.loads(ran.stdout)
    except json.JSONDecodeError:
        if "invalid choice" in ran.stderr:
            return None
        raise RuntimeError(f"{case} in {root} was not measured:\n{ran.stderr[-2000:]}") from None
    return dict(_flat(document["cases"][case]["figures"]))


def _flat(figures: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for key, value in figures.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, int | float):
            yield f"{prefix}{key}", float(value)


def _medians(samples: list[dict[str, float]]) -> dict[str, float]:
    keys = dict.fromkeys(key for one in samples for key in one)
    return {key: round(statistics.median(one[key] for one in samples if key in one), 2) for key in keys}


def _git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
