"""The demonstration on a real Ollama names what is missing before it installs anything."""

from __future__ import annotations

import dataclasses
import re

import pytest

from hack.cluster import progress
from hack.demo import errors, roles, settings
from hack.models import catalogue
from tests.fakes.ollama import process


def wanted(url: str, **models: str) -> settings.Settings:
    return settings.read({"OLLAMA_URL": url, **models})


def test_what_is_missing_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with process.running(models=["qwen3:8b", "qwen3-embedding:8b"]) as fake:
        with pytest.raises(errors.Failure, match=re.escape("(orchestrator, qualifier)")) as refused:
            roles.check(wanted(fake.url), progress.Progress())
        assert "no backend has qwen3-coder:30b" in str(refused.value)
        roles.check(wanted(fake.url, OLLAMA_MODEL="qwen3:8b"), progress.Progress())
        assert "vision (qwen3-vl:8b): Stops" in capfd.readouterr().err
        with pytest.raises(errors.Failure, match="embedding"):
            roles.check(wanted(fake.url, OLLAMA_MODEL="qwen3:8b", OLLAMA_EMBEDDING="absent"), progress.Progress())


def test_small_models_are_asked_for_by_their_own_names() -> None:
    names = [model.name for model in catalogue.SMALL]
    with process.running(models=names) as fake:
        chosen = dataclasses.replace(settings.read({"MODEL": "small"}), ollama_url=fake.url)
        roles.check(chosen, progress.Progress())
    with process.running(models=["qwen3:8b"]) as fake:
        chosen = dataclasses.replace(chosen, ollama_url=fake.url)
        with pytest.raises(errors.Failure, match=f"no backend has {names[0]}"):
            roles.check(chosen, progress.Progress())


def test_a_server_that_is_away_is_named() -> None:
    with pytest.raises(errors.Failure, match=r"No Ollama answers at http://127\.0\.0\.1:1"):
        roles.check(wanted("http://127.0.0.1:1"), progress.Progress())


def test_simulators_have_every_model() -> None:
    roles.check(settings.read({}), progress.Progress())
