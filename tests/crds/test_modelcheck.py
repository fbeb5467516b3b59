"""What is said about the models of roles before they are asked anything."""

from __future__ import annotations

from typing import Any

import pytest

from crds import modelcheck, modelroles
from crds.gpubackend import Capability
from crds.modelaliases import Aliases
from crds.modelcheck import Backend, Facts, Verdict

TALKS = Facts(frozenset({"completion", "tools", "thinking"}), 40_960)


def assigned(role: str, model: str, num_ctx: int | None = None) -> modelroles.Assigned:
    return modelroles.Assigned(role=role, model=model, num_ctx=num_ctx)


def backend(name: str = "gpu-0", *, openai: bool = False, **models: Facts) -> Backend:
    facts = {f"{model}:latest": said for model, said in models.items()}
    return Backend(name, frozenset(facts), facts, openai=openai)


def told(role: str, said: Facts, num_ctx: int | None = None) -> modelcheck.RoleVerdict:
    [verdict] = modelcheck.check([assigned(role, "m", num_ctx)], [backend(m=said)]).roles
    return verdict


def test_what_ollama_says_of_a_model() -> None:
    show: dict[str, Any] = {
        "capabilities": ["completion", "vision"],
        "model_info": {
            "general.architecture": "gemma3",
            "gemma3.context_length": 131072,
            "gemma3.embedding_length": 2560,
        },
    }
    assert modelcheck.facts(show) == Facts(frozenset({"completion", "vision"}), 131_072, None)
    embeds = {
        "capabilities": ["embedding"],
        "model_info": {"general.architecture": "bert", "bert.embedding_length": 384},
    }
    assert modelcheck.facts(embeds) == Facts(frozenset({"embedding"}), None, 384)
    # Servers before 0.6.4 name no capabilities, and others may write anything.
    assert modelcheck.facts({"model_info": {"general.architecture": "llama"}}) == Facts()
    assert modelcheck.facts({"model_info": ["x"], "capabilities": "all"}) == Facts()


@pytest.mark.parametrize(
    ("role", "said", "num_ctx", "verdict", "words"),
    [
        ("orchestrator", TALKS, 16_384, Verdict.OK, ""),
        (
            "orchestrator",
            TALKS,
            65_536,
            Verdict.LESS,
            "its window is 40960 tokens there and prompts are made for 65536",
        ),
        ("orchestrator", Facts(frozenset({"completion"}), 40_960), None, Verdict.LESS, "it has no tools"),
        # That a small model is asked for its own window makes it no better.
        (
            "orchestrator",
            Facts(frozenset({"completion", "tools"}), 8192),
            8192,
            Verdict.LESS,
            "its window is 8192 tokens there and the role wants 16384: it is told less at a time",
        ),
        ("qualifier", Facts(frozenset({"completion"}), 8192), None, Verdict.OK, ""),
        (
            "qualifier",
            Facts(frozenset({"completion"}), 2048),
            None,
            Verdict.LESS,
            "made for 8192: longer ones are refused",
        ),
        ("qualifier", Facts(frozenset({"embedding"}), 8192), None, Verdict.STOPS, "it has no completion"),
        ("qualifier", Facts(None, 8192), None, Verdict.UNKNOWN, "does not say what the model can do"),
        ("vision", TALKS, None, Verdict.STOPS, "it has no vision"),
        ("embedding", Facts(frozenset({"embedding"}), 512, 384), None, Verdict.OK, ""),
        ("embedding", TALKS, None, Verdict.STOPS, "it has no embedding"),
    ],
)
def test_what_a_role_needs(role: str, said: Facts, num_ctx: int | None, verdict: Verdict, words: str) -> None:
    found = told(role, said, num_ctx)
    assert (found.verdict, words in found.problem, bool(found.problem)) == (verdict, True, bool(words))
    assert found.stops == (modelroles.role(role).stops if verdict is Verdict.STOPS else "")


def test_a_role_is_as_good_as_its_best_backend() -> None:
    roles = [assigned("qualifier", "M"), assigned("orchestrator", "other"), assigned("fast", "alias")]
    backends = [backend("a", m=TALKS), backend("b", x=TALKS), Backend("c", None, {})]
    report = modelcheck.check(roles, backends, Aliases({"alias": "x"}))
    assert [(one.role, one.verdict) for one in report.roles] == [
        ("qualifier", Verdict.OK), ("orchestrator", Verdict.UNKNOWN), ("fast", Verdict.OK),
    ]  # fmt: skip
    assert [(row.backend, row.present) for row in report.rows[:3]] == [("a", True), ("b", False), ("c", None)]
    assert not report.stops
    known = modelcheck.check(roles, backends[:2], Aliases({"alias": "X:8b"}))
    assert [one.problem for one in known.roles] == ["", "no backend has other", "no backend has X:8b"]
    assert [one.missing for one in known.roles] == ["", "other", "X:8b"]
    assert known.stops


def test_the_window_that_a_backend_loads_counts() -> None:
    small = Backend("gpu-0", frozenset({"m:latest"}), {"m:latest": TALKS}, loads={"m:latest": 4096})
    [row] = modelcheck.check([assigned("planner", "m", 8192)], [small]).rows
    assert (row.window, row.needed, row.verdict) == (4096, 8192, Verdict.LESS)


def test_each_engine_is_asked_for_what_it_serves() -> None:
    roles = [assigned("qualifier", "m"), assigned("embedding", "m"), assigned("reranker", "m")]
    only_ollama = modelcheck.check(roles, [backend(m=Facts(frozenset({"completion", "embedding"})))])
    assert [one.verdict for one in only_ollama.roles] == [Verdict.OK, Verdict.OK, Verdict.STOPS]
    assert only_ollama.roles[2].problem == "there is no backend of engine OpenAI for it"
    only_openai = modelcheck.check(roles, [backend(openai=True, m=Facts())])
    assert [one.verdict for one in only_openai.roles] == [Verdict.STOPS, Verdict.OK, Verdict.OK]
    assert only_openai.roles[0].problem == "there is no backend of engine Ollama for it"
    # A server of the other engine beside it takes nothing away.
    mixed = modelcheck.check(roles[1:2], [backend("vllm", openai=True, m=Facts()), backend("gpu-0", x=TALKS)])
    assert mixed.roles[0].verdict is Verdict.OK


def test_a_reranker_is_not_known_where_its_servers_were_not_asked() -> None:
    [verdict] = modelcheck.check([assigned("reranker", "m")], [backend(m=TALKS)], whole=False).roles
    assert (verdict.verdict, verdict.problem) == (Verdict.UNKNOWN, "no server of engine OpenAI was asked")


def test_a_backend_that_gets_no_request_says_nothing_good() -> None:
    names, facts = frozenset({"m:latest"}), {"m:latest": TALKS}
    roles = [assigned("qualifier", "m")]
    away = Backend("a", names, facts, away="no connection")
    [verdict] = modelcheck.check(roles, [away]).roles
    assert (verdict.verdict, verdict.problem) == (Verdict.UNKNOWN, "no request goes to it now: no connection")
    unable = Backend("b", names, facts, capabilities=frozenset({Capability.EMBED}))
    [verdict] = modelcheck.check(roles, [unable]).roles
    assert (verdict.verdict, verdict.problem) == (Verdict.STOPS, "its spec.capabilities do not name generate")
    # They take nothing away from one that serves the role, and add nothing to one that does not.
    report = modelcheck.check(roles, [away, unable, backend("c", m=TALKS)])
    assert report.roles[0].verdict is Verdict.OK
    assert [row.served for row in report.rows] == [False, False, True]
    report = modelcheck.check(roles, [away, backend("c", m=Facts(frozenset({"embedding"})))])
    assert (report.roles[0].verdict, report.roles[0].problem) == (Verdict.STOPS, "it has no completion")
    # Where the model is not at all, a server that is away does not hide that.
    assert modelcheck.check(roles, [Backend("a", frozenset(), {}, away="it drains")]).stops


def test_backends_that_serve_a_role_differently() -> None:
    sees = Facts(frozenset({"completion", "vision"}), 8192)
    backends = [backend("a", m=sees), backend("b", m=Facts(frozenset({"completion"}), 2048)), backend("c", x=sees)]
    report = modelcheck.check([assigned("vision", "m")], backends)
    [verdict] = report.roles
    assert verdict.verdict is Verdict.LESS
    assert verdict.problem == (
        "on b: its window is 2048 tokens there and prompts are made for 4096: longer ones are refused, it has no vision"
    )
    assert not report.stops
    # What is wrong on all of them is said once, and what one does not say is no difference.
    same = [backend(name, m=Facts(frozenset({"completion"}))) for name in ("a", "b")]
    assert modelcheck.check([assigned("orchestrator", "m")], same).roles[0].problem == "it has no tools"
    silent = [backend("a", m=TALKS), backend("b", m=Facts())]
    assert modelcheck.check([assigned("orchestrator", "m")], silent).roles[0].verdict is Verdict.OK


def test_copies_of_a_model_with_different_windows_are_loaded_anew() -> None:
    roles = [assigned("qualifier", "m", 16_384), assigned("planner", "copy", 8192)]
    names = frozenset({"m:latest", "copy:latest"})
    facts, digests = dict.fromkeys(names, TALKS), dict.fromkeys(names, "sha256:1")
    report = modelcheck.check(roles, [Backend("a", names, facts, digests=digests)])
    assert [one.verdict for one in report.roles] == [Verdict.LESS] * 2
    assert report.roles[0].problem == (
        "copy:latest is the same model there, with another window: each change between them loads it anew"
    )
    assert report.roles[1].problem.startswith("m:latest is the same model there")
    # With one window for both, theirs or that of the backend, and for other files, nothing is loaded anew.
    alike = [Backend("a", names, facts, digests=digests, loads=dict.fromkeys(names, 16_384))]
    other = [Backend("a", names, facts, digests={"m:latest": "sha256:1", "copy:latest": "sha256:2"})]
    for backends in (alike, other):
        assert [one.verdict for one in modelcheck.check(roles, backends).roles] == [Verdict.OK] * 2


def test_vectors_of_different_lengths_are_no_index() -> None:
    one, other = (Facts(frozenset({"embedding"}), 512, count) for count in (384, 1024))
    report = modelcheck.check([assigned("embedding", "m")], [backend("a", m=one), backend("b", m=other)])
    assert [row.verdict for row in report.rows] == [Verdict.STOPS] * 2
    assert "different lengths on different backends: 384, 1024" in report.roles[0].problem


def test_vectors_of_different_files_are_no_index() -> None:
    embeds = Facts(frozenset({"embedding", "completion"}), 8192, 384)

    def one(name: str, digest: str, **more: Any) -> Backend:
        return Backend(name, frozenset({"m:latest"}), {"m:latest": embeds}, digests={"m:latest": digest}, **more)

    def found(role: str, *backends: Backend) -> tuple[Verdict, str]:
        [verdict] = modelcheck.check([assigned(role, "m")], backends).roles
        return verdict.verdict, verdict.problem

    a, same, other = one("a", "sha256:1"), one("b", "sha256:1"), one("c", "sha256:2")
    assert found("embedding", a, same, other) == (Verdict.LESS, "different files under that name on a and c")
    assert found("embedding", a, same) == (Verdict.OK, "")
    # What a server does not say is no difference, nor is one that gets no request; texts may differ by model.
    openai = Backend("d", frozenset({"m:latest"}), {"m:latest": Facts()}, openai=True)
    assert found("embedding", a, one("b", ""), openai, one("c", "sha256:2", away="it drains"))[0] is Verdict.OK
    assert found("qualifier", a, other) == (Verdict.OK, "")
