"""`models`: what the models of the roles can do, asked of a server itself, without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli import output
from cli.views import models as view
from crds import modelcheck, modelroles
from tests.cli import site
from tests.fakes.ollama import process as ollama


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("JERVIS_ROUTER_URL", "JERVIS_ROUTER_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))


def test_one_model_for_all_chat_roles(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("models: {vision: 'qwen3-vl:4b', numCtx: {chat: 32768}}\n")
    with ollama.running(models=["qwen3:8b", "qwen3-embedding:8b", "qwen3-vl:4b"]) as fake:
        done = site.call(capsys, "models", "--url", fake.url, "--model", "qwen3:8b", "-f", str(values))
        assert (done.code, done.err) == (0, "")
        assert done.out.splitlines()[-1] == "Every role has its model."
        asked = fake.requests(path="/api/show")
        assert [one["model"] for one in asked] == ["qwen3-embedding:8b", "qwen3-vl:4b", "qwen3:8b"]
        shown = site.call(capsys, "models", "--url", fake.url, "--model", "qwen3:8b", "-f", str(values), "-o", "json")
    rows = {one["role"]: one for one in shown.json["rows"]}
    assert (rows["planner"]["model"], rows["planner"]["needed"], rows["planner"]["tools"]) == ("qwen3:8b", 32768, True)
    assert (rows["vision"]["vision"], rows["embedding"]["dimensions"]) == (True, 384)


def test_what_stops_is_said_before_anything_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    with ollama.running(models=["qwen3-coder:30b", "qwen2.5:7b", "qwen3-embedding:8b", "qwen3:14b"]) as fake:
        done = site.call(capsys, "models", "--url", fake.url)
    assert done.code == 1
    lines = done.out.splitlines()
    assert [line for line in lines if line.startswith("decision (")] == [
        "decision (gpt-oss:120b): Stops, no backend has gpt-oss:120b. Without it POST /api/v1/agentic_search answers "
        "no question. Make it: ollama pull gpt-oss:120b, or name another model as models.decision."
    ]
    assert any(line.startswith("vision (qwen3-vl:8b): Stops") for line in lines)


def test_aliases_and_the_reranker_of_the_values(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An alias is no model that is missing, and no second model; rerankers are on servers that are not asked."""
    first, second = tmp_path / "values.yaml", tmp_path / "more.yaml"
    first.write_text(
        "models: {chat: qwen3-tool, planner: 'qwen3:8b', vision: 'qwen3-vl:4b', reranker: bge-reranker}\n"
        "router: {aliases: {qwen3-tool: tool, tool: 'qwen3:14b', gone: 'qwen3:4b'}}\n"
    )
    second.write_text("router: {aliases: {tool: 'Qwen3:8b', gone: null}}\n")
    values = ["-f", str(first), "-f", str(second)]
    with ollama.running(models=["qwen3:8b", "qwen3-embedding:8b", "qwen3-vl:4b"]) as fake:
        done = site.call(capsys, "models", "--url", fake.url, *values)
        shown = site.call(capsys, "models", "--url", fake.url, *values, "-o", "json")
        missing = site.call(capsys, "models", "--url", fake.url, "-f", str(first))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "reranker (bge-reranker): Unknown, no server of engine OpenAI was asked."
    rows = {one["role"]: one for one in shown.json["rows"]}
    assert {rows[role]["needed"] for role in ("orchestrator", "planner", "decision")} == {16384}
    assert missing.code == 1
    assert "no backend has qwen3:14b. " in missing.out
    assert "ollama pull qwen3:14b, or name another model as models.decision." in missing.out


def test_aliases_that_cannot_be_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("router: {aliases: {a: b, b: a}}\n")
    done = site.call(capsys, "models", "--url", "http://127.0.0.1:1", "-f", str(values))
    assert done.code == 1
    assert "router.aliases cannot be used: a -> b -> a is a circle" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--url", "gpu-0:11434"], "is no URL"),
        (["--url", "http://127.0.0.1:1"], "No Ollama answers at http://127.0.0.1:1"),
        (["--model", "qwen3:8b"], "for servers that are asked without a release"),
        (["--url", "http://127.0.0.1:1", "-f", "/nowhere.yaml"], "/nowhere.yaml cannot be read"),
    ],
)
def test_what_cannot_be_asked(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    done = site.call(capsys, "models", *arguments)
    assert done.code in (1, 75)
    assert words in done.err


def test_the_table() -> None:
    says = modelcheck.Facts(frozenset({"completion"}), 8192)
    roles = [modelroles.Assigned(role="orchestrator", model="small", num_ctx=16384)]
    backends = [modelcheck.Backend("gpu-0", frozenset({"small:latest"}), {"small:latest": says})]
    drawn = output.plain(view.draw(modelcheck.check(roles, backends))).splitlines()
    assert drawn[0].split() == [
        "ROLE", "MODEL", "BACKEND", "VERDICT", "WINDOW", "NEEDED", "TOOLS", "THINKING", "VISION", "DIMENSIONS",
        "PROBLEM",
    ]  # fmt: skip
    problem = "its window is 8192 tokens there and prompts are made for 16384: longer ones are refused; it has no tools"
    assert drawn[1].split()[:10] == ["orchestrator", "small", "gpu-0", "Less", "8192", "16384", "no", "no", "no", "-"]
    assert drawn[1].endswith(problem)
    assert drawn[-1] == f"orchestrator (small): Less, {problem}."
    assert output.plain(view.draw(modelcheck.Report())).startswith("Models by role: not known")
