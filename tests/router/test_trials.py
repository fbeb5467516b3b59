"""The small tasks by which a model is judged: each is asked as in the product, and each way to fail has its word."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from cli.views import trials as view
from crds import modelroles
from kb import trials as of_knowledge
from kb.extract import prompt
from orchestrator_job import trials as of_runs
from router.client import calls, choosing, trials
from tests.fakes.ollama import process as ollama
from tests.router import process

_EVERY = [*of_knowledge.every(), *of_runs.every()]
_LANGUAGES = ("en", "de", "cs")


def _judgement(*, wanted: bool, ours: bool) -> dict[str, Any]:
    """What a model says of a mail: whether it asks for something, and whether it asks us."""
    return {
        "summary": "A mail.", "reason": "It says so.", "hasActionableContent": wanted, "isAssignedToMe": ours,
        "hasFutureDeadline": wanted, "urgency": "normal", "classification": "REQUEST" if wanted else "NEWSLETTER",
    }  # fmt: skip


def _facts(evidence: str, source: str, target: str) -> dict[str, Any]:
    stated = {"evidence": evidence, "source": source, "target": target, "type": "owns"}
    return {"entities": [], "relationships": [stated]}


def _answer(text: str, *citations: int) -> dict[str, Any]:
    return {"answer": text, "citations": list(citations), "confidence": "high"}


def _called(name: str, **arguments: Any) -> calls.Reply:
    return calls.Reply("", calls=(choosing.ToolCall(name, arguments),))


def _steps(*tools: str) -> dict[str, Any]:
    return {"steps": [{"description": "Do it.", "tools": [tool], "successCriteria": "It is done."} for tool in tools]}


_FOR_US, _FOR_OTHERS, _FOR_NOBODY = (
    _judgement(wanted=True, ours=True), _judgement(wanted=True, ours=False), _judgement(wanted=False, ours=False),
)  # fmt: skip
_ASKS_BACK = {**_answer("It expires on 20 March.", 2), "needs_input": True, "questions": ["Which registry?"]}
_SEARCHES = {"reasoning": "The owner is not there yet.", "tool": "fast_vector_search", "inputs": {"query": "billing"}}
_OWNERS = {
    "en": _facts("Petra Novak is the owner of the billing service.", "Petra Novak", "billing service"),
    "de": _facts("Petra Novak ist die Eigentümerin des Dienstes Billing.", "Petra Novak", "Billing"),
    "cs": _facts("Petra Novak je vlastníkem služby Billing.", "Petra Novak", "Billing"),
}
_CANTEENS = {
    "en": _facts("The canteen is closed on Friday.", "canteen", "Friday"),
    "de": _facts("Die Kantine ist am Freitag geschlossen.", "Kantine", "Freitag"),
    "cs": _facts("Jídelna je v pátek zavřená.", "Jídelna", "pátek"),
}
"""A fact of each text that says nothing of the service."""
_NOT_STATED = _facts("Petra Svoboda owns billing.", "Petra Svoboda", "Billing")
# Name and language of a task -> an answer that is right, and answers of its shape of which each is wrong in one way.
_JUDGED: dict[tuple[str, str], tuple[Any, list[Any]]] = {
    **{("a mail for the team", language): (_FOR_US, [_FOR_NOBODY, _FOR_OTHERS]) for language in _LANGUAGES},
    ("a newsletter", "en"): (_FOR_NOBODY, [_FOR_US, _judgement(wanted=False, ours=True)]),
    **{
        ("a fact and its sentence", language): (
            _OWNERS[language], [_CANTEENS[language], _NOT_STATED, {"entities": [], "relationships": []}],
        )
        for language in _LANGUAGES
    },
    ("the type of a document", "en"): ({"contentType": "EMAIL"}, [{"contentType": "JIRA"}]),
    ("the choice of a tool", "en"): (
        _SEARCHES,
        [{**_SEARCHES, "tool": "rules", "inputs": {}}, {**_SEARCHES, "inputs": {}}, {"impossible": True}],
    ),
    **{
        ("an answer with citations", language): (
            _answer("It expires on 20 March.", 2),
            [_answer("It expires on 20 March."), _answer("It expires on 20 March.", 1, 2),
             _answer("It expires in March.", 2), _ASKS_BACK],
        )
        for language in _LANGUAGES
    },
    ("a call of a tool", "en"): (
        _called("search_knowledge", query="Who owns the billing service?"),
        [_called("read_source", query="billing"), _called("search_knowledge", limit=3), calls.Reply("Petra owns it.")],
    ),
    ("a plan", "en"): (_steps("search", "answer", "ask"), [_steps("search", "answer", "deploy")]),
}  # fmt: skip


def test_there_is_a_task_for_each_chat_role_and_in_three_languages() -> None:
    chat = {role.name for role in modelroles.ROLES if role.chat}
    assert {trial.role for trial in _EVERY} == chat
    assert {trial.language for trial in _EVERY} == set(_LANGUAGES)
    assert len(_EVERY) >= 12


def test_each_judge_takes_an_answer_that_is_right_and_none_that_is_wrong() -> None:
    assert sorted(_JUDGED) == sorted((trial.name, trial.language) for trial in _EVERY)
    for trial in _EVERY:
        right, several = _JUDGED[trial.name, trial.language]
        assert trial.wrong(_read(trial, right)) == "", (trial.name, trial.language)
        for wrong in several:
            assert trial.wrong(_read(trial, wrong)) != "", (trial.name, trial.language, wrong)


def _read(trial: trials.Trial, said: Any) -> Any:
    """What the judge of a task is given of an answer."""
    return said if trial.shape is None else trial.shape.model_validate(said)


def _roles(model: str) -> tuple[modelroles.Assigned, ...]:
    names = sorted({trial.role for trial in _EVERY} - {"fast"})
    return tuple(modelroles.Assigned(role=name, model=model, num_ctx=8192) for name in names)


async def _asked(url: str, model: str, every: list[trials.Trial]) -> list[trials.Result]:
    out = io.StringIO()
    await trials.run(every, trials.Settings(router_url=url, roles=_roles(model)), out)
    results = trials.read(f"a line of another program\n{out.getvalue()}")
    assert trials.announced(out.getvalue()) == len(results)
    return results


async def test_each_task_of_a_role_with_a_model_is_asked_and_has_a_result(tmp_path: Path) -> None:
    with ollama.running(models=["qwen2.5:7b"]) as fake:
        async with process.running(tmp_path, [process.spec("g", fake.url)]) as router:
            results = await _asked(router.url, "qwen2.5:7b", _EVERY)
        asked = fake.requests(path="/api/chat")
    # A role without a model has no tasks.
    assert [result.task for result in results] == [trial.name for trial in _EVERY if trial.role != "fast"]
    assert {result.verdict for result in results} <= {trials.Verdict.RIGHT, trials.Verdict.WRONG}
    right = [result for result in results if result.verdict is trials.Verdict.RIGHT]
    # The simulation's rules are good at English, and its answers are all of the shape.
    assert "an answer with citations" in {result.task for result in right if result.language == "en"}
    assert all(result.valid for result in right if result.tries == 1)
    assert all(request["body"]["options"]["num_ctx"] == 8192 for request in asked)


async def test_a_model_that_answers_nothing_usable_and_one_that_is_away(tmp_path: Path) -> None:
    with ollama.running(models=["qwen2.5:7b"]) as fake:
        fake.set_script({"*": ["I cannot do that."] * 100})
        async with process.running(tmp_path, [process.spec("g", fake.url)]) as router:
            useless = await _asked(router.url, "qwen2.5:7b", _EVERY)
            absent = await _asked(router.url, "qwen9:1b", _EVERY[:1])
    assert {result.verdict for result in useless} == {trials.Verdict.UNUSABLE, trials.Verdict.WRONG}
    assert [result.task for result in useless if result.verdict is trials.Verdict.WRONG] == ["a call of a tool"]
    assert not any(result.valid for result in useless)
    assert [(result.verdict, "qwen9:1b" in result.detail) for result in absent] == [(trials.Verdict.AWAY, True)]
    lines = {line.role: line.verdict for line in view.summed(useless)}
    assert set(lines.values()) == {view.Enough.NO}
    assert [line.verdict for line in view.summed(absent)] == [view.Enough.UNKNOWN]


class _Busy(calls.Client):
    """A router that is too busy for as many calls; each refusal names the next of `pauses`, or none."""

    def __init__(self, *pauses: float | None) -> None:
        self.pauses, self.slept = list(pauses), list[float]()

    async def converse(self, *_: Any, **more: Any) -> calls.Reply:
        if self.pauses:
            raise calls.Unavailable("the router's queue is full", retry_after=self.pauses.pop(0))
        return calls.Reply("fine")

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_a_router_that_is_busy_is_asked_again_a_few_times() -> None:
    trial = trials.Trial("planner", "a task", "en", [], lambda answer: "")
    [role] = (role for role in _roles("m") if role.role == "planner")
    busy, busier = _Busy(2.0, None, 900.0), _Busy(1.0, 1.0, 1.0, 1.0)
    result = await trials.ask(busy, trial, role, busy.sleep)
    assert (result.verdict, result.tries, busy.slept) == (trials.Verdict.RIGHT, 1, [2.0, 5.0, 30.0])
    result = await trials.ask(busier, trial, role, busier.sleep)
    assert (result.verdict, busier.slept) == (trials.Verdict.AWAY, [1.0] * 3)


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, {"JERVIS_ROUTER_URL", "JERVIS_ROLES"}),
        ({"JERVIS_ROUTER_URL": "http://r", "JERVIS_ROLES": '[{"role": "planner"}]'}, {"JERVIS_ROLES_0_MODEL"}),
        ({"JERVIS_ROUTER_URL": "r", "JERVIS_ROLES": "[]"}, {"JERVIS_ROUTER_URL"}),
    ],
)
def test_each_setting_that_cannot_be_used_is_named(
    environment: dict[str, str], named: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("JERVIS_ROUTER_URL", "JERVIS_ROLES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert trials.main(list) == 2
    assert {line.split()[1].rstrip(":") for line in capsys.readouterr().err.splitlines()} == named


def test_the_sum_by_role() -> None:
    def result(verdict: trials.Verdict, *, valid: bool = True) -> trials.Result:
        return trials.Result(
            role="planner", model="m", task="a plan", language="en", verdict=verdict, valid=valid, tries=1, tokens=5
        )

    right, wrong = result(trials.Verdict.RIGHT), result(trials.Verdict.WRONG, valid=False)
    [line] = view.summed([right, wrong])
    assert (line.verdict, line.right, line.valid, line.count, line.tokens) == (view.Enough.PARTLY, 1, 1, 2, 10)
    assert view.summed([right])[0].verdict is view.Enough.YES
    # What could not be asked says nothing about the model.
    away = result(trials.Verdict.AWAY, valid=False)
    sums = {(right, away): "unknown", (away,): "unknown", (right, wrong, away, away): "partly", (wrong, away): "no"}
    for results, enough in sums.items():
        assert (view.summed(results)[0].verdict, view.summed(results)[0].count) == (enough, len(results))
    assert view.summed([right, wrong, wrong])[0].verdict is view.Enough.NO


def test_lists_of_facts_have_the_bound_that_is_sent_otherwise() -> None:
    [bounds] = {
        tuple(part["properties"][name]["maxItems"] for name in ("entities", "relationships"))
        for trial in _EVERY
        if trial.name == "a fact and its sentence" and (part := trial.wire) is not None
    }
    asked = prompt.extract(of_knowledge._FACTS["en"], title="Notes", kind="text")
    assert bounds == (asked.most["entities"], asked.most["relationships"])
