"""What each mechanism that exists for a figure brings: each is switched off alone and measured beside the rest.

    eval "$(python -m hack.cluster env)"
    python -m bench.operator.ablation --rounds 3                     # all of them, an hour
    python -m bench.operator.ablation "batched transitions" --rounds 3

A mechanism is switched off by an edit of the source in a temporary worktree of this commit, so that no setting exists
for the measurement only. In each round all versions are measured once, the unchanged one first and last. One JSON
document on stdout: for each mechanism and figure the median without it divided by the median with it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.operator.compare import ROOT, flat_figures, git

Edit = tuple[str, str, str]
"""A file, what stands there (once), and what to write instead."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """`figures`: by case of `bench.operator`, the names of the figures that it is for."""

    edits: tuple[Edit, ...]
    figures: Mapping[str, Sequence[str]]


CPU = "cpu_ms_per_task.operator"
RELATIVE = "cpu_of_all_per_harness"
"""CPU time of apiserver, etcd, operator and harness in units of the harness's, which does the same work in every
version: the speed of the machine does not matter."""
FLOW = (RELATIVE, "tasks_per_second", CPU, "cpu_ms_per_task.apiserver", "writes_per_task.sum", "apply_to_end.p50_ms")
TASKS = "controllers/pendingtask/"

KOPF_FOR_RUNS = """
@kopf.on.event("batch", "v1", "jobs", labels={"jervis.dev/task-uid": kopf.PRESENT})
async def on_job(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    memo.runtime.handlers.job(event["type"], event["object"])


@kopf.on.event("", "v1", "pods", labels={"jervis.dev/task-uid": kopf.PRESENT})
async def on_pod(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    memo.runtime.handlers.pod(event["type"], event["object"])


# -- settings -"""

MECHANISMS: dict[str, Mechanism] = {
    "lean streams for Jobs and pods": Mechanism(
        (
            ("operator/main.py", "\n# -- settings -", KOPF_FOR_RUNS),
            ("controllers/runtime/app.py", "for one in (*self._runs, *(", "for one in (*(), *("),
            ("controllers/runtime/watches.py", "    answers.expect(source.path)\n", ""),
        ),
        {"lifecycle": FLOW, "dispatch": ("question.p50_ms", "question.p99_ms")},
    ),
    "batched transitions": Mechanism(
        ((f"{TASKS}transitions.py", "MAX_STEPS = len(Phase)", "MAX_STEPS = 1"),),
        {"lifecycle": FLOW, "qualification": FLOW},
    ),
    "write delay": Mechanism(
        ((f"{TASKS}reconcile.py", "if self._cache.work.busy() else 0.0", "if False else 0.0"),),
        {"lifecycle": FLOW, "qualification": FLOW, "burst": ("burst.p99_ms",)},
    ),
    "reading before the claim": Mechanism(
        ((f"{TASKS}reconcile.py", "if transitions.reads_first(task, batch) and", "if False and"),),
        {"qualification": FLOW, "lifecycle": FLOW},
    ),
    "contents kept": Mechanism(
        ((f"{TASKS}task_index.py", "CAPACITY = 4 << 20", "CAPACITY = 0"),), {"qualification": FLOW}
    ),
    "events merged beyond a rate": Mechanism(
        (("controllers/events.py", "RATE, BURST = 20.0, 100.0", "RATE, BURST = 1e9, 1e9"),),
        {"lifecycle": FLOW, "dispatch": ("mail.p50_ms", "mail.p99_ms")},
    ),
    "housekeeping pauses": Mechanism(
        (("controllers/backpressure.py", "SHARE = 3.0", "SHARE = 0.0"),),
        {"dispatch": ("mail.p50_ms", "mail.p99_ms"), "lifecycle": FLOW},
    ),
}


def main(arguments: list[str]) -> int:
    """Measure; 0 when every version was."""
    parser = argparse.ArgumentParser(prog="python -m bench.operator.ablation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("mechanisms", nargs="*", metavar="mechanism", help=", ".join(MECHANISMS))
    parser.add_argument("--cases", nargs="*", help="only these cases of bench.operator")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parsed = parser.parse_args(arguments)
    unknown = [name for name in parsed.mechanisms if name not in MECHANISMS]
    if unknown:
        parser.error(f"no mechanism {unknown[0]!r}; there are: {', '.join(MECHANISMS)}")
    wanted = {name: MECHANISMS[name] for name in parsed.mechanisms or MECHANISMS}
    cases = dict.fromkeys(case for one in wanted.values() for case in one.figures)
    found = {
        case: _case(case, wanted, parsed.rounds, parsed.cores)
        for case in cases
        if parsed.cases is None or case in parsed.cases
    }
    print(json.dumps({"rounds": parsed.rounds, "cores": parsed.cores, "without_per_with": found}, indent=2))
    return 0


def _case(case: str, wanted: Mapping[str, Mechanism], rounds: int, cores: int) -> dict[str, object]:
    concerned = {name: one for name, one in wanted.items() if case in one.figures}
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in ("", *concerned)}
    with tempfile.TemporaryDirectory(prefix="bench-ablation-") as directory:
        roots = {"": ROOT}
        try:
            for number, (name, one) in enumerate(concerned.items()):
                roots[name] = Path(directory) / str(number)
                git("worktree", "add", "--detach", str(roots[name]), "HEAD")
                for edit in one.edits:
                    _edit(roots[name], *edit)
            for number in range(rounds):
                for name in ("", *concerned, ""):
                    figures = _with_relative(flat_figures(case, roots[name], cores) or {})
                    measured[name].append(figures)
                    print(
                        f"{case} round {number + 1} without {name or 'nothing'}", json.dumps(figures), file=sys.stderr
                    )
        finally:
            for name in concerned:
                if roots.get(name, ROOT).exists() and name in roots:
                    git("worktree", "remove", "--force", str(roots[name]))
    return {
        name: {
            figure: {"without": off, "with": on, "ratio": round(off / on, 3) if on else None}
            for figure in one.figures[case]
            for off, on in ((_median(measured[name], figure), _median(measured[""], figure)),)
        }
        for name, one in concerned.items()
    }


def _with_relative(figures: dict[str, float]) -> dict[str, float]:
    spent = {name: value for name, value in figures.items() if name.startswith("cpu_ms_per_task.")}
    harness = spent.get("cpu_ms_per_task.harness")
    return {**figures, RELATIVE: sum(spent.values()) / harness} if harness else figures


def _median(samples: Sequence[Mapping[str, float]], figure: str) -> float:
    known = [one[figure] for one in samples if figure in one]
    if not known:
        raise SystemExit(f"no figure {figure!r}; there are: {', '.join(samples[0])}")
    return round(statistics.median(known), 2)


def _edit(root: Path, name: str, before: str, after: str) -> None:
    path = root / name
    text = path.read_text()
    if text.count(before) != 1:
        raise SystemExit(f"{name} holds {before!r} {text.count(before)} times: the edit must be brought up to date")
    path.write_text(text.replace(before, after))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
