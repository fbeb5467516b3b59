"""Which finished tasks go, and in which order."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from controllers.archive import sweep
from controllers.archive.finished import Finished
from controllers.archive.sweep import Why
from crds.phases import Phase
from tests.controllers.archive.build import NOW, ended
from tests.controllers.build import present

TERMS = sweep.Terms(success=timedelta(hours=24), failure=timedelta(hours=168), per_client=1000)
PLENTY = 10_000


def planned(*tasks: Finished, terms: sweep.Terms = TERMS, most: int = PLENTY) -> sweep.Plan:
    return sweep.plan(tasks, terms, NOW, most)


def deleted(plan: sweep.Plan) -> list[tuple[str, str]]:
    return [(one.task.uid, one.why.value) for one in plan.delete]


def test_what_is_not_archived_is_never_deleted() -> None:
    assert planned(ended("young", 1, archived=False), ended("old", 1000, archived=False)) == sweep.Plan()


def test_successes_and_failures_have_their_own_time() -> None:
    plan = planned(
        ended("fresh", 23.9),
        ended("completed", 24),
        ended("done", 25, phase=Phase.DONE),
        ended("error", 25, phase=Phase.ERROR),
        ended("old error", 168, phase=Phase.ERROR),
    )
    assert deleted(plan) == [("old error", "Expired"), ("done", "Expired"), ("completed", "Expired")]


def test_a_task_s_own_time_wins() -> None:
    assert deleted(planned(ended("at once", 0, ttl=0), ended("long", 25, ttl=10**6))) == [("at once", "Expired")]


def test_one_that_does_not_say_when_it_ended_stays() -> None:
    assert planned(ended("a", None, archived=False), ended("b", None), terms=sweep.Terms(per_client=0)).delete == ()


def test_beyond_the_cap_the_oldest_archived_ones_of_that_client_go() -> None:
    tasks = [ended(f"a{hours}", hours) for hours in range(1, 6)]
    tasks += [ended("a9", 9, archived=False), ended("b1", 1, client="beta"), ended("b2", 2, client="beta")]
    assert deleted(planned(*tasks, terms=sweep.Terms(per_client=3))) == [
        ("a5", "Crowded"),
        ("a4", "Crowded"),
        ("a3", "Crowded"),
    ]


def test_those_whose_time_is_over_make_room_first() -> None:
    tasks = [ended("old", 30), ended("b", 3), ended("a", 2)]
    assert deleted(planned(*tasks, terms=sweep.Terms(per_client=2))) == [("old", "Expired")]


def test_one_that_is_leaving_is_not_deleted_again_and_does_not_count() -> None:
    tasks = [ended("gone", 99, leaving=True), ended("going", 98, leaving=True, archived=False), ended("a", 1)]
    assert planned(*tasks, terms=sweep.Terms(per_client=1)).delete == ()
    assert not sweep.over(tasks[0], TERMS, NOW)


def test_the_bound_takes_the_oldest_and_says_how_many_are_due() -> None:
    tasks = [ended(f"t{hours}", hours, archived=hours % 2 == 0) for hours in range(30, 40)]
    plan = planned(*tasks, most=3)
    assert [uid for uid, _ in deleted(plan)] == ["t38", "t36", "t34"]
    assert plan.due == 5


def test_clients_share_the_total_and_the_one_with_few_keeps_all_of_its_own() -> None:
    tasks = [ended(f"{client}{hours:02}", hours, client=client) for client in ("a", "b") for hours in range(10)]
    tasks += [ended("c00", 20, client="c"), ended("c01", 21, client="c")]
    plan = planned(*tasks, terms=sweep.Terms(per_client=8, total=10))
    gone = {one.task.uid for one in plan.delete}
    assert {one.why for one in plan.delete} == {Why.CROWDED}
    assert {task.uid for task in tasks} - gone == {f"{c}{hours:02}" for c in "ab" for hours in range(4)} | {
        "c00",
        "c01",
    }


def test_a_client_of_another_namespace_pushes_out_none_here() -> None:
    tasks = [ended(f"here{hours}", hours) for hours in (30, 31)]
    tasks += [ended(f"there{hours}", hours, namespace="other") for hours in range(5)]
    plan = planned(*tasks, terms=sweep.Terms(success=timedelta(days=9), per_client=2))
    assert [one.task.uid for one in plan.delete] == ["there4", "there3", "there2"]


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(0, 40), st.integers(0, 200))
def test_the_share_is_the_largest_that_fits(numbers: list[int], per_client: int, total: int) -> None:
    def kept(each: int) -> int:
        return sum(min(number, each) for number in numbers)

    share = sweep.share(numbers, sweep.Terms(per_client=per_client, total=total))
    assert kept(share) <= total
    assert share <= per_client
    assert share == per_client or kept(share + 1) > total


TASKS = st.lists(
    st.builds(
        ended,
        st.uuids().map(str),
        st.none() | st.integers(-5, 400),
        archived=st.booleans(),
        leaving=st.booleans(),
        client=st.sampled_from(["acme", "beta"]),
        phase=st.sampled_from([Phase.DONE, Phase.COMPLETED, Phase.ERROR]),
        ttl=st.none() | st.integers(0, 10**6),
    ),
    max_size=40,
    unique_by=lambda task: task.uid,
)
LIMITS = st.builds(sweep.Terms, per_client=st.integers(0, 10))
BOUNDS = st.integers(0, 50)


@given(TASKS, LIMITS, BOUNDS)
def test_nothing_unarchived_or_leaving_is_deleted_and_the_bound_holds(
    tasks: list[Finished], terms: sweep.Terms, most: int
) -> None:
    plan = sweep.plan(tasks, terms, NOW, most)
    uids = [one.task.uid for one in plan.delete]
    assert all(one.task.archived and not one.task.leaving and one.task.completed for one in plan.delete)
    assert len(uids) == len(set(uids)) == min(most, plan.due)
    for one in plan.delete:
        over = present(sweep.expiry(one.task, terms))
        assert (one.why is Why.EXPIRED) == (over <= NOW)


@given(TASKS, LIMITS, st.randoms(use_true_random=False))
def test_the_order_of_the_list_does_not_matter(tasks: list[Finished], terms: sweep.Terms, chance: object) -> None:
    shuffled = list(tasks)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis types its randoms as object
    assert sweep.plan(shuffled, terms, NOW, PLENTY) == sweep.plan(tasks, terms, NOW, PLENTY)


@given(TASKS, LIMITS)
def test_a_second_sweep_after_the_first_finds_nothing_to_delete(tasks: list[Finished], terms: sweep.Terms) -> None:
    gone = {one.task.uid for one in sweep.plan(tasks, terms, NOW, PLENTY).delete}
    rest = [task for task in tasks if task.uid not in gone]
    assert sweep.plan(rest, terms, NOW, PLENTY).delete == ()


@given(TASKS, LIMITS)
def test_a_client_keeps_as_many_as_it_may_and_loses_no_more_than_it_must(
    tasks: list[Finished], terms: sweep.Terms
) -> None:
    plan = sweep.plan(tasks, terms, NOW, PLENTY)
    crowded = Counter(one.task.client for one in plan.delete if one.why is Why.CROWDED)
    gone = {one.task.uid for one in plan.delete}
    for client in ("acme", "beta"):
        rest = [task for task in tasks if task.client == client and task.uid not in gone and not task.leaving]
        if crowded[client]:
            assert len(rest) >= terms.per_client
        if any(task.archived and task.completed is not None for task in rest):
            assert len(rest) <= terms.per_client


def test_jobs_stay_a_while_after_the_end_archived_or_not() -> None:
    terms = sweep.Terms(jobs=timedelta(hours=1))
    tasks = [ended("young", 0.9), ended("old", 1, archived=False), ended("unknown", None)]
    assert [task.uid for task in sweep.jobs(tasks, terms, NOW)] == ["old", "unknown"]
