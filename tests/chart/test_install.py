"""The first contact: what the documents print installs, with the image of the chart's own version."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.chart import rendering
from tests.chart.rendering import CHART, Chart

ROOT = CHART.parents[1]
METADATA = yaml.safe_load((CHART / "Chart.yaml").read_text())


def commands(document: Path) -> list[list[str]]:
    """The arguments after `helm install RELEASE CHART` (or `upgrade --install`) of each such command of a document."""
    text = document.read_text().replace("\\\n", " ")
    found = re.findall(r"helm (?:install|upgrade --install) jervis charts/jervis ([^\n]*)", text)
    return [shlex.split(one) for one in found]


def images(manifests: list[rendering.Manifest]) -> set[str]:
    return {c["image"] for _, pod in rendering.pods(manifests) for c in rendering.containers(pod)}


@pytest.mark.parametrize("document", [ROOT / "README.md", CHART / "README.md"], ids=["README", "chart README"])
def test_the_printed_command_installs_the_image_of_this_version(chart: Chart, tmp_path: Path, document: Path) -> None:
    (arguments, *_) = commands(document)
    backends = re.search(r"^    gpuBackends:\n(?:      .*\n)+", document.read_text(), flags=re.MULTILINE)
    (tmp_path / "backends.yaml").write_text(backends[0] if backends else "{}")
    given = [one for one in arguments if one not in ("-n", "--namespace", "jervis", "--create-namespace")]
    rendered = chart.render(*(str(tmp_path / one) if one == "backends.yaml" else one for one in given))
    repository = re.search(r"image\.repository=([^\s,]+)", " ".join(given))
    assert repository is not None
    assert images(rendered) == {f"{repository[1]}:{METADATA['appVersion']}"}
    assert len(rendering.of_kind(rendered, "GpuBackend")) > 0, "tasks would wait for a backend that nothing makes"


def test_the_tag_is_the_version_of_the_chart_unless_it_is_given(chart: Chart) -> None:
    simulated = ("--set", "simulator.enabled=true")
    version = METADATA["appVersion"]
    assert images(chart.render(*simulated)) == {f"jervis:{version}", f"jervis-fakes:{version}"}
    rendered = chart.render(*simulated, "--set", "image.tag=v9,simulator.image.tag=v8")
    assert images(rendered) == {"jervis:v9", "jervis-fakes:v8"}
    operator = rendering.of_kind(chart.render(), "Deployment")["jervis/jervis-operator"]["spec"]["template"]
    assert rendering.environment(operator)["JERVIS_OPERATOR_IMAGE"]["value"] == f"jervis:{version}"


def test_an_image_of_others_has_no_tag_of_ours(chart: Chart) -> None:
    message = chart.refusal("--set", "tika.enabled=true,tika.image.tag=")
    assert "tika.image.tag" in message


def test_the_demonstration_names_the_tags_of_its_images(chart: Chart) -> None:
    rendered = chart.render(*rendering.VARIANTS["demo"])
    assert images(rendered) == {"localhost/jervis:dev", "localhost/jervis-fakes:dev"}


def test_a_package_installs_without_the_checkout(chart: Chart, tmp_path: Path) -> None:
    """What `helm package` writes renders the same objects, and its README leads to no file that it does not hold."""
    packed = chart.run("package", str(CHART), "-d", str(tmp_path))
    assert packed.returncode == 0, packed.stderr
    archive = tmp_path / f"jervis-{METADATA['version']}.tgz"
    where = ("-n", "jervis", "--kube-version", rendering.KUBERNETES)
    unpacked = chart.run("template", "jervis", str(archive), *where)
    assert unpacked.returncode == 0, unpacked.stderr
    assert list(yaml.safe_load_all(unpacked.stdout)) == list(yaml.safe_load_all(chart.template().stdout))
    shown = chart.run("show", "readme", str(archive)).stdout
    assert shown.strip() == (CHART / "README.md").read_text().strip()
    for target in re.findall(r"\]\(([^)]+)\)", shown):
        assert (CHART / target).exists() or target.startswith("https://"), f"{target} is not in the package"


def test_the_documents_that_the_chart_names_exist() -> None:
    texts = [(CHART / name).read_text() for name in ("README.md", "values.yaml", "values.schema.json")]
    named = {one for text in texts for one in re.findall(r"docs/[A-Za-z0-9/_.-]*[A-Za-z0-9]", text)}
    assert len(named) > 5
    for one in named:
        assert (ROOT / one).exists(), f"{one} does not exist"
