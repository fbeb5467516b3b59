"""What `make demo` does first: nothing that is there already, and it says what and how long before it begins."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hack.cluster import layout, ownership, prerequisites, progress, steps
from hack.demo import prepare

PLACE = layout.of(Path("/tmp/nothing"), "prepared")


def planned(environment: dict[str, str]) -> dict[str, steps.Step]:
    return {step.name: step for step in prepare.local(PLACE, environment, progress.Progress())}


def test_the_cluster_waits_for_its_programs_and_the_images_for_containerd_alone() -> None:
    found = planned({})
    programs = {"kubernetes", "coredns", "pause", "weaviate", "mongodb", "tika"}
    assert programs | {"Debian packages"} == set(found["cluster"].needs)
    assert found["load"].needs == ("images", "runtime")
    assert found["runtime"].needs == ("Debian packages",)
    assert not found["kubernetes"].needs, "compiling begins at once"
    assert not found["Python environment"].needs
    assert "gitea" not in found["cluster"].needs, "it is built beside the cluster, which does not wait for it"
    assert found["gitea"].needs == ("Debian packages",), "a compiler of C is one of them"


def test_another_checkout_s_cluster_is_stopped_when_this_one_can_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(layout, "RUN", tmp_path)
    ownership.claim(PLACE)
    assert planned({})["runtime"].needs == ("Debian packages",), "its own cluster of before stops nothing"
    ownership.claim(layout.of(tmp_path / "other", PLACE.name))
    found = planned({})
    assert found["runtime"].needs == found["cluster"].needs
    assert "kubernetes" in found["runtime"].needs, "a build that fails leaves the other cluster running"


def test_nothing_is_built_that_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "helm"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert "helm" not in planned({}), "that of the PATH is used"
    assert not {"images", "load"} & set(planned({"IMAGE": "registry/jervis:1"}))
    program.unlink()
    if shutil.which("helm") is None:
        assert "helm" in planned({})


def test_small_models_are_fetched_when_the_environment_s_pip_and_ollama_are_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not {"ollama", "models"} & set(planned({}))
    assert not {"ollama", "models"} & set(planned({"OLLAMA_URL": "http://gpu:11434"}))
    found = planned({"MODEL": "small"})
    assert set(found["models"].needs) == {"ollama", "Python environment"}
    assert found["ollama"].seconds > 0
    assert found["models"].seconds > 0
    text = prepare.announcement(list(found.values()), [], small=True)
    assert "  ollama               13 min" in text
    assert "  models               40 s" in text


def test_a_machine_with_empty_caches_hears_minutes_and_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = prepare.local(PLACE, {}, progress.Progress())
    text = prepare.announcement(made, ["containerd", "runc"])
    assert "  kubernetes           6 min" in text
    assert "Installed as root by apt-get: containerd runc" in text
    assert "in about 1 min" not in text

    ready = [steps.Step(step.name, step.run, 0, step.needs) for step in made]
    text = prepare.announcement(ready, [])
    assert "kubernetes" not in text
    assert "apt-get" not in text
    assert "in about 1 min" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can install packages")
def test_a_package_that_is_missing_is_named_before_it_is_installed() -> None:
    assert prerequisites.installable({"no-such-package": "no-such-program-at-all"}) == ["no-such-package"]
