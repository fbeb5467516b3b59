"""`make demo MODEL=small`: what the release gets, what a log says of crashes, what is said of the model's size, and
who may upload its recording."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from contracts.tokens import token_file
from crds import modelroles, scope
from hack.cluster import layout
from hack.demo import images, release, settings, small, speech
from hack.models import catalogue

_SCHEMA = json.loads((layout.CHECKOUT / "charts/jervis/values.schema.json").read_text())


def test_all_roles_have_models_that_are_there() -> None:
    models = small.values()["models"]
    names = {model.name for model in catalogue.SMALL}
    roles = {role: name for role, name in models.items() if isinstance(name, str) and name}
    assert set(roles.values()) == names
    assert models["embedding"] == catalogue.MINILM.name
    known = set(_SCHEMA["properties"]["models"]["properties"])
    assert {"orchestrator", "planner", "qualifier", "decision", "vision", "embedding"} <= set(roles) <= known


def test_the_release_has_the_small_models_and_no_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "fingerprint", lambda _: "")
    wanted = settings.read({"MODEL": "small"})
    assert not wanted.simulated
    assert wanted.timeout > settings.read({}).timeout
    values = release.values(wanted, owns_crds=True)
    assert values["simulator"]["enabled"] is False
    assert values["models"]["qualifier"] == catalogue.SMOLLM2.name
    chosen = settings.read({"MODEL": "small", "DEMO_TIMEOUT": "7"})
    assert chosen.timeout == 7
    jsonschema.validate(values["models"], {**_SCHEMA["properties"]["models"], "required": []})
    # What is asked for is the window that the model was trained for.
    windows = {one.role: one.num_ctx for one in modelroles.assigned(values["models"])}
    assert set(windows.values()) == {catalogue.CONTEXT, None}
    assert [role for role, window in windows.items() if window is None] == ["embedding"]


@pytest.mark.parametrize(
    ("line", "dead"),
    [
        ('level=ERROR msg="llama runner terminated" error="exit status 2"', True),
        ('level=ERROR msg="llama runner terminated" error="signal: killed"', False),
        ('msg="Load failed" error="llama runner process has terminated: exit status 2"', True),
        ("SIGSEGV: segmentation violation", True),
        ("panic: runtime error: index out of range", True),
        ('msg="llama runner started in 0.50 seconds"', False),
        ("the word panic: in the middle of a prompt", False),
    ],
)
def test_a_crash_is_found_in_the_log(tmp_path: Path, line: str, dead: bool) -> None:
    place = layout.of(tmp_path, "small")
    assert small.crashes(place) == []
    log = tmp_path / "relay" / "ollama.log"
    log.parent.mkdir()
    log.write_text(f"time=1 msg=serving\n{line}\n")
    assert small.crashes(place) == ([line] if dead else [])


def test_it_says_how_small_the_model_is_and_what_is_left_out() -> None:
    text = "\n".join(small.words())
    assert "135 million" in text
    assert all(part in text for part, _ in small.LEFT_OUT)


def test_the_chart_takes_its_values() -> None:
    values = speech.values()
    properties = {name: {**_SCHEMA["properties"][name], "required": []} for name in values}
    jsonschema.validate(values, {**_SCHEMA, "properties": properties, "required": []})


def test_who_uploads_has_one_token_that_the_release_knows(tmp_path: Path) -> None:
    wanted = settings.Settings(kubeconfig="", local=True, checkout=layout.CHECKOUT, state=tmp_path, small=True)
    token = speech.token(wanted)
    assert speech.token(wanted) == token
    assert (tmp_path / "sources-token").stat().st_mode & 0o077 == 0
    secret, volume, claim = speech.manifests(token, tmp_path / "whisper")
    file = tmp_path / "tokens.yaml"
    file.write_text(secret["stringData"]["tokens.yaml"])
    grant = token_file.Book(file).find(token)
    assert grant is not None
    assert grant.allows(scope.Scope(client_id=settings.CLIENT), writing=True)
    assert not grant.allows(scope.Scope(client_id="another"), writing=True)
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert volume["spec"]["hostPath"]["path"] == str(tmp_path / "whisper")
    [mounted] = speech.values()["transcription"]["volumes"]
    assert mounted["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
