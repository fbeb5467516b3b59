"""Steps that wait for each other, run beside each other: what the longest path to the end begins with goes first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent import futures
from dataclasses import dataclass

WORKERS = 3
"""Steps at a time. A Go build alone leaves a processor idle while it downloads and at its end while it links."""


@dataclass(frozen=True)
class Step:
    """`run` once all steps named in `needs` are done; it takes about `seconds` on two cores when nothing is cached."""

    name: str
    run: Callable[[], object]
    seconds: float
    needs: tuple[str, ...] = ()


def run(steps: Sequence[Step], workers: int = WORKERS) -> None:
    """Run all of them. After a failure none is started; those under way end first, then the failure is raised."""
    waiting = in_order(steps)
    done: set[str] = set()
    with futures.ThreadPoolExecutor(workers) as pool:
        running: dict[futures.Future[object], Step] = {}
        while waiting or running:
            ready = [step for step in waiting if done.issuperset(step.needs)]
            for step in ready[: workers - len(running)]:
                waiting.remove(step)
                running[pool.submit(step.run)] = step
            assert running, f"no step is named in the needs of {waiting}"
            ended, _ = futures.wait(running, return_when=futures.FIRST_COMPLETED)
            for future in ended:
                future.result()
                done.add(running.pop(future).name)


def in_order(steps: Sequence[Step]) -> list[Step]:
    """By the seconds from a step's start to the end of the longest chain of steps that needs it, longest first."""
    return sorted(steps, key=lambda step: -_tail(step, steps))


def total(steps: Sequence[Step]) -> float:
    """About how many seconds all of them take: a step alone keeps one and a half of two processors busy."""
    return max(0.75 * sum(step.seconds for step in steps), *(_tail(step, steps) for step in steps))


def _tail(step: Step, steps: Sequence[Step]) -> float:
    return step.seconds + max((_tail(other, steps) for other in steps if step.name in other.needs), default=0)
