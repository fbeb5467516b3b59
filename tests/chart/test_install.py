"""The first contact: what the documents print installs, with the image of the chart's own version."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from crds import connection, gpubackend, modelroles, pendingtask
from tests.chart import rendering
from tests.chart.rendering import CHART, Chart

ROOT = CHART.parents[1]
METADATA = yaml.safe_load((CHART / "Chart.yaml").read_text())


def printed() -> Iterator[tuple[Path, str]]:
    """Each document, and what follows the chart in a `helm install` or `helm upgrade --install` of it."""
    for document in (CHART / "README.md", ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = document.read_text().replace("\\\n", " ")
        for arguments in re.findall(r"helm (?:install|upgrade --install) jervis charts/jervis ([^\n]*)", text):
            yield document, arguments


def images(manifests: list[rendering.Manifest]) -> set[str]:
    return {c["image"] for _, pod in rendering.pods(manifests) for c in rendering.containers(pod)}


@pytest.mark.parametrize(("document", "arguments"), [*printed()], ids=lambda one: getattr(one, "name", "command"))
def test_a_printed_command_installs_images_of_this_version(
    chart: Chart, tmp_path: Path, document: Path, arguments: str
) -> None:
    block = re.search(r"^    gpuBackends:\n(?:      .*\n)+", document.read_text(), flags=re.MULTILINE)
    (tmp_path / "backends.yaml").write_text(block[0] if block else "{}")
    known = {"backends.yaml": str(tmp_path / "backends.yaml")}
    given = [known.get(one, str(ROOT / one) if (ROOT / one).is_file() else one) for one in shlex.split(arguments)]
    rendered = chart.render(*given)
    tags = {image.rpartition(":")[2] for image in images(rendered)}
    assert tags == {"dev" if "values-demo.yaml" in arguments else METADATA["appVersion"]}
    if "backends.yaml" in arguments:
        assert len(rendering.of_kind(rendered, "GpuBackend")) == 2


def test_a_secret_that_a_command_names_is_named_before_it() -> None:
    named = {}
    for document, arguments in printed():
        text = document.read_text().replace("\\\n", " ")
        for secret in re.findall(r"existingSecret\.name=(\S+)", arguments):
            named[document.name, secret] = f"`{secret}`" in text[: text.index(arguments)]
    assert named
    assert all(named.values()), named


def test_the_tag_is_the_version_of_the_chart_unless_it_is_given(chart: Chart) -> None:
    simulated = ("--set", "simulator.enabled=true")
    version = METADATA["appVersion"]
    assert images(chart.render(*simulated)) == {f"jervis:{version}", f"jervis-fakes:{version}"}
    rendered = chart.render(*simulated, "--set", "image.tag=v9,simulator.image.tag=v8")
    assert images(rendered) == {"jervis:v9", "jervis-fakes:v8"}
    assert rendering.told(chart.render(), "operator")["JERVIS_OPERATOR_IMAGE"]["value"] == f"jervis:{version}"


@pytest.mark.parametrize("vision", ["qwen3-vl:8b", "qwen2.5:7b"])
def test_the_simulators_have_every_model_that_is_asked(chart: Chart, vision: str) -> None:
    rendered = chart.render(*rendering.VARIANTS["demo"], "--set", f"models.vision={vision}")
    backends = rendering.of_kind(rendered, "GpuBackend").values()
    values = yaml.safe_load((rendering.CHART / "values.yaml").read_text())["models"] | {"vision": vision}
    models = {one.role: one.model for one in modelroles.assigned(values)}
    for name, does in (
        ("orchestrator", "generate"), ("qualifier", "generate"), ("embedding", "embed"), ("vision", "vision"),
    ):  # fmt: skip
        able = [one for one in backends if does in one["spec"]["capabilities"]]
        listed = [[model["name"] for model in group["models"]] for one in able for group in one["spec"]["modelSets"]]
        assert models[name] in {model for group in listed for model in group}, name
        assert all(len(set(group)) == len(group) for group in listed)
    assert vision in rendering.simulated(rendered)


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
    key = ("--set", "runToken.existingSecret=keys")  # otherwise it is random
    where = ("-n", "jervis", "--kube-version", rendering.KUBERNETES)
    unpacked = chart.run("template", "jervis", str(archive), *where, *key)
    assert unpacked.returncode == 0, unpacked.stderr
    assert list(yaml.safe_load_all(unpacked.stdout)) == list(yaml.safe_load_all(chart.template(*key).stdout))
    shown = chart.run("show", "readme", str(archive)).stdout
    assert shown.strip() == (CHART / "README.md").read_text().strip()
    for target in re.findall(r"\]\(([^)]+)\)", shown):
        assert (CHART / target).exists() or target.startswith("https://"), f"{target} is not in the package"


def test_with_the_kinds_applied_first_nothing_depends_on_the_cluster(chart: Chart) -> None:
    """As GitOps renders it: the same objects each time, and no hook but that of `helm test`."""
    values = (
        "crds.enabled=false,runToken.existingSecret=keys,gpuBackends[0].name=gpu-0,gpuBackends[0].url=http://gpu:11434"
    )
    first, second = (chart.render("--set", values) for _ in range(2))
    assert first == second
    hooks = [m["metadata"].get("annotations", {}).get("helm.sh/hook") for m in first]
    assert {hook for hook in hooks if hook} == {"test"}
    assert "jervis/gpu-0" in rendering.of_kind(first, "GpuBackend")


def test_the_documents_that_the_chart_names_exist() -> None:
    texts = [(CHART / name).read_text() for name in ("README.md", "values.yaml", "values.schema.json")]
    named = {one for text in texts for one in re.findall(r"docs/[A-Za-z0-9/_.-]*[A-Za-z0-9]", text)}
    assert len(named) >= 5
    for one in named:
        assert (ROOT / one).exists(), f"{one} does not exist"


def test_the_metadata_lists_the_kinds_as_they_are() -> None:
    """Artifact Hub shows them, and their examples."""
    listed = yaml.safe_load(METADATA["annotations"]["artifacthub.io/crds"])
    kinds = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]
    assert sorted((one["kind"], one["name"], one["version"]) for one in listed) == sorted(
        (kind["spec"]["names"]["kind"], kind["metadata"]["name"], kind["spec"]["versions"][0]["name"]) for kind in kinds
    )
    examples = yaml.safe_load(METADATA["annotations"]["artifacthub.io/crdsExamples"])
    assert {one["kind"] for one in examples} == {one["kind"] for one in listed}
    models = {
        "PendingTask": pendingtask.PendingTask,
        "Connection": connection.Connection,
        "GpuBackend": gpubackend.GpuBackend,
    }
    for example in examples:
        models[example["kind"]].model_validate(example)
