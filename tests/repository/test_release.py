"""A release: one version everywhere, what keeps a checkout from being released, and what is built."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from datetime import date
from pathlib import Path

import pytest
import yaml

from hack import release
from hack.cluster import binaries, errors
from tests import needs


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of HEAD, which no test changes."""
    return release.exported(release.ROOT, tmp_path_factory.mktemp("release") / "source")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small repository that may be released as 1.2.3."""
    place = tmp_path / "checkout"
    (place / "charts/jervis").mkdir(parents=True)
    (place / "changelog.d").mkdir()
    (place / "changelog.d/README.md").write_text("How to write fragments.\n")
    (place / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n[tool.towncrier]\nversion = "1.2.3"\n')
    (place / "charts/jervis/Chart.yaml").write_text("version: 1.2.3\nappVersion: 1.2.3\n")
    (place / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (2026-12-01)\n")
    git(place, "init", "-q")
    commit(place)
    git(place, "tag", "v1.2.3")
    return place


def git(place: Path, *arguments: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    subprocess.run(["git", *who, *arguments], cwd=place, check=True, capture_output=True)


def commit(place: Path) -> None:
    git(place, "add", "-A")
    git(place, "commit", "-qm", "A change")


def problems(place: Path) -> list[str]:
    return release.obstacles(place, place, "1.2.3")


def test_version_is_one(source: Path) -> None:
    version = release.agreed_version(release.ROOT)
    assert version == release.agreed_version(source)
    values = yaml.safe_load((release.ROOT / "charts/jervis/Chart.yaml").read_text())
    assert {values["version"], str(values["appVersion"])} == {version}


@pytest.mark.parametrize("file", ["pyproject.toml", "charts/jervis/Chart.yaml"])
def test_versions_that_differ_are_named(checkout: Path, file: str) -> None:
    text = (checkout / file).read_text()
    (checkout / file).write_text(text.replace("1.2.3", "1.2.4", 1))
    with pytest.raises(errors.Failure, match=r"the versions differ: .*1\.2\.4"):
        release.agreed_version(checkout)


def test_a_tagged_clean_commit_with_its_changelog_may_be_released(checkout: Path) -> None:
    assert problems(checkout) == []


def test_what_keeps_a_checkout_from_being_released(checkout: Path) -> None:
    (checkout / "changelog.d/+one.feature.md").write_text("Something.\n")
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (unreleased)\n")
    found = problems(checkout)
    assert len(found) == 3
    assert "not committed" in found[0]
    assert "no section `## 1.2.3 (YYYY-MM-DD)`" in found[1]
    assert "1 fragments" in found[2]
    commit(checkout)
    assert problems(checkout)[0] == "the commit has no tag v1.2.3"


def test_a_version_with_two_sections_is_not_released(checkout: Path) -> None:
    # towncrier writes its list above a section that was written by hand, and leaves that.
    changelog = checkout / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n## 1.2.3 (2026-12-01)\n\n## 1.2.3 (unreleased)\n\n## 1.2.30 (2026-11-01)\n")
    assert "CHANGELOG.md has 2 sections of 1.2.3: ## 1.2.3 (2026-12-01), ## 1.2.3 (unreleased)" in problems(checkout)


def test_only_what_is_committed_is_built(checkout: Path, tmp_path: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("changed")
    (checkout / "untracked").write_text("x")
    made = release.exported(checkout, tmp_path / "made")
    assert "## 1.2.3" in (made / "CHANGELOG.md").read_text()
    assert not (made / "untracked").exists()


def test_versions_past_their_end_of_life_are_named(source: Path) -> None:
    found = release.outdated(source, date(2027, 11, 1))
    assert "past its end of life: Python 3.11, since 2027-10-31 (1 days)" in found


def test_wheel_is_the_same_each_time(source: Path, tmp_path: Path) -> None:
    made = [release.wheel(source, tmp_path / name) for name in ("first", "second")]
    assert made[0].read_bytes() == made[1].read_bytes()
    with zipfile.ZipFile(made[0]) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        assert f"\nVersion: {release.agreed_version(source)}\n" in archive.read(metadata).decode()


def test_chart_is_packaged_with_the_version_and_summed_up(source: Path, tmp_path: Path) -> None:
    packed = release.chart(source, tmp_path, needs.program(binaries.HELM, "helm"))
    assert packed.name == f"jervis-{release.agreed_version(source)}.tgz"
    with tarfile.open(packed) as archive:
        assert "jervis/values.schema.json" in archive.getnames()
    release.sums(tmp_path)
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, text=True).stdout == f"{packed.name}: OK\n"
    packed.write_bytes(packed.read_bytes() + b"\0")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, text=True).returncode == 1


def test_a_base_that_is_not_named_with_its_digest_is_no_part_of_a_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--without", *release.PARTS, "--dist", str(tmp_path / "dist"), "--base"]
    for base, said in (("docker.io/library/python:3.11-slim", True), (f"python@sha256:{'5' * 64}", False)):
        release.main([*arguments, base], date(2026, 11, 30))
        assert ("is not named with its digest" in "".join(capsys.readouterr())) is said


def test_the_workflow_asks_for_what_the_makefile_has() -> None:
    jobs = yaml.safe_load((release.ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    targets = {leg["target"] for leg in jobs["test"]["strategy"]["matrix"]["include"]}
    assert {"test", "test-thorough"} <= targets
    assert "make release" in [step.get("run") for step in jobs["release"]["steps"]]
    for target in targets:
        subprocess.run(["make", "-n", target], cwd=release.ROOT, check=True, capture_output=True)
