"""The models of the roles and their windows: what the chart renders is what `crds.modelroles` says."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from crds import modelaliases, modelroles
from hack.demo import release, settings
from tests.chart import rendering
from tests.chart.rendering import CHART, Chart

VALUES: dict[str, dict[str, Any]] = {
    "default": {},
    "one for all": {"chat": "qwen3:8b"},
    "one for all, one window": {"chat": "qwen3:8b", "numCtx": {"chat": 32768}},
    "one role has its own": {"chat": "qwen3:8b", "qualifier": "qwen2.5:7b", "numCtx": {"qualifier": 8192}},
    "the same under two spellings": {"orchestrator": "Qwen3", "planner": "library/qwen3:latest", "vision": "qwen3"},
    "the backend's windows": {"numCtx": {"chat": None, "planner": None}},
    "the least that they need": {"chat": "qwen3:8b", "numCtx": {"chat": None, "planner": 4096}},
    "nothing is planned": {"planner": "", "chat": "qwen3:8b"},
    "a fast one and a reranker": {"fast": "qwen3:0.6b", "reranker": "bge-reranker", "numCtx": {"fast": 2048}},
    "eyes that also speak": {"chat": "gemma3:12b", "vision": "gemma3:12b", "numCtx": {"vision": 32768}},
}


def given(models: dict[str, Any]) -> dict[str, Any]:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())["models"]
    return release.overlaid(defaults, models)


def rendered(chart: Chart, models: dict[str, Any], *arguments: str) -> dict[str, dict[str, Any]]:
    objects = chart.render("--set-json", f"models={json.dumps(models)}", *arguments)
    return {name: rendering.told(objects, name) for name in ("router", "operator", "kb")}


@pytest.mark.parametrize("models", VALUES.values(), ids=list(VALUES))
def test_the_chart_and_the_check_agree_on_roles(chart: Chart, models: dict[str, Any]) -> None:
    environment = rendered(chart, models)
    expected = modelroles.assigned(given(models))
    roles = json.loads(environment["router"]["JERVIS_ROUTER_ROLES"]["value"])
    assert tuple(modelroles.Assigned.model_validate(one) for one in roles) == expected
    by_role = {one.role: one for one in expected}
    for component, variable, role in (
        ("operator", "JERVIS_OPERATOR_%s", "orchestrator"),
        ("operator", "JERVIS_OPERATOR_PLANNER_%s", "planner"),
        ("kb", "JERVIS_KB_EXTRACT_%s", "qualifier"),
        ("kb", "JERVIS_KB_FAST_%s", "fast"),
        ("kb", "JERVIS_KB_DECISION_%s", "decision"),
        ("kb", "JERVIS_KB_VISION_%s", "vision"),
    ):
        found = [environment[component].get(variable % what, {}).get("value") for what in ("MODEL", "NUM_CTX")]
        one = by_role.get(role)
        window = one.num_ctx if one is not None else None
        assert found == [None if one is None else one.model, None if window is None else str(window)], role


def test_an_alias_is_the_model_that_it_stands_for(chart: Chart) -> None:
    """Two windows for one model would load it anew at each change of role."""
    chosen = {"chat": "qwen3:14b", "orchestrator": "tool", "planner": "Qwen3-Tool", "vision": "tool"}
    models: dict[str, Any] = {**chosen, "numCtx": {"chat": 32768}}
    names = {"qwen3-tool:latest": "tool", "TOOL": "library/qwen3:14b"}
    aliases = ("--set-json", f"router.aliases={json.dumps(names)}")
    environment = rendered(chart, models, *aliases)
    expected = modelroles.assigned(given(models), modelaliases.Aliases(names))
    roles = json.loads(environment["router"]["JERVIS_ROUTER_ROLES"]["value"])
    assert tuple(modelroles.Assigned.model_validate(one) for one in roles) == expected
    assert {one.role for one in expected if one.num_ctx == 32768} == {
        "orchestrator", "planner", "qualifier", "decision", "vision",
    }  # fmt: skip
    # A GpuBackend knows nothing of aliases: the operator and the chart compare by the name that it has.
    assert environment["operator"]["JERVIS_OPERATOR_MODEL"]["value"] == "library/qwen3:14b"
    windows = json.loads(environment["operator"]["JERVIS_OPERATOR_WINDOWS"]["value"])
    assert {one["role"]: one["model"] for one in windows}["planner"] == "library/qwen3:14b"
    model = {"name": "library/qwen3:14b", "numCtx": 8192}
    backend = {"name": "gpu-0", "url": "http://gpu:11434", "modelSets": [{"name": "one", "models": [model]}]}
    only = {"chat": "tool", "embedding": "e"}
    message = chart.refusal(
        *aliases, "--set-json", f"models={json.dumps(only)}", "--set-json", f"gpuBackends={json.dumps([backend])}"
    )
    assert "longer prompts would be refused there" in message


def test_a_simulator_has_the_model_of_an_alias(chart: Chart) -> None:
    chosen = "router.aliases.brain=qwen3:14b,models.orchestrator=brain"
    names = rendering.simulated(chart.render("--set", f"simulator.enabled=true,{chosen}"))
    assert ("qwen3:14b" in names, "brain" in names) == (True, False)


def test_one_value_sets_every_chat_role_and_one_window() -> None:
    found = modelroles.assigned(given({"chat": "qwen3:8b"}))
    assert {one.role for one in found if one.model == "qwen3:8b"} == {
        "orchestrator",
        "planner",
        "qualifier",
        "decision",
    }
    assert {one.num_ctx for one in found if one.model == "qwen3:8b"} == {16_384}
    # Without one value the planner alone keeps the small window that values.yaml gives it.
    alone = {one.role: one.num_ctx for one in modelroles.assigned(given({}))}
    assert (alone["planner"], alone["orchestrator"], alone["vision"]) == (8192, 16_384, None)


def test_a_shared_model_has_a_window_that_each_role_can_work_in() -> None:
    found = modelroles.assigned({"chat": "qwen3:8b", "numCtx": {"chat": None, "planner": 4096}})
    assert {one.num_ctx for one in found if one.model == "qwen3:8b"} == {8192}


def test_the_demonstration_has_one_variable_for_all_chat_roles(chart: Chart) -> None:
    url = {"OLLAMA_URL": "http://gpu:11434", "IMAGE": "r/jervis:1", "KUBECONFIG": "/elsewhere/config"}
    wanted = settings.read({**url, "OLLAMA_MODEL": "qwen3:8b", "OLLAMA_DECISION": "qwen3:14b"})
    assert wanted.models == {"chat": "qwen3:8b", "decision": "qwen3:14b"}
    for environment, decides in (
        ({**url, "OLLAMA_MODEL": "qwen3:8b"}, "qwen3:8b"),
        ({**url, "OLLAMA_MODEL": "qwen3:8b", "OLLAMA_DECISION": "qwen3:14b"}, "qwen3:14b"),
        (url, "gpt-oss:120b"),
    ):
        values = release.values(settings.read(environment), owns_crds=True)
        arguments = [*rendering.VARIANTS["demo"], "--set-json", f"models={json.dumps(values['models'])}"]
        arguments += ["--set", "simulator.enabled=false"]
        roles = json.loads(rendering.told(chart.render(*arguments), "router")["JERVIS_ROUTER_ROLES"]["value"])
        assert {one["role"]: one["model"] for one in roles}["decision"] == decides
