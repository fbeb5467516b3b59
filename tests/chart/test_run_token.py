"""The keys of run tokens: one Secret, made once, in the hands of those that sign and verify and of no other pod."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from contracts.tokens import keyring, runtoken
from tests.chart import cluster as clusters
from tests.chart import rendering
from tests.chart.cluster import Cluster
from tests.chart.rendering import CHART, Chart, Manifest
from tests.sources.api.serving import run_token

NAME = "jervis-run-token"
VARIABLES = {
    "operator": "JERVIS_OPERATOR_RUN_TOKEN_KEYS",
    "router": "JERVIS_ROUTER_RUN_TOKEN_KEYS",
    "kb": "JERVIS_KB_RUN_TOKEN_KEYS",
    "sources": "JERVIS_SOURCES_RUN_TOKEN_KEYS",
}


def test_those_that_sign_and_verify_mount_the_keys_and_no_other_pod_does(manifests: list[Manifest]) -> None:
    seen = set()
    for name, pod in rendering.pods(manifests):
        container = pod["spec"]["containers"][0]
        secrets = [volume["secret"]["secretName"] for volume in pod["spec"]["volumes"] if "secret" in volume]
        if container["name"] not in VARIABLES:
            assert NAME not in secrets, name
            continue
        seen.add(container["name"])
        environment = rendering.environment(pod)
        folder = environment[VARIABLES[container["name"]]]["value"]
        asks = VARIABLES[container["name"]].replace("RUN_TOKEN_KEYS", "LIVE_RUNS_URL")
        if container["name"] != "operator":
            assert environment[asks]["value"] == "http://jervis-operator.jervis.svc:9091", name
        (mount,) = [mount for mount in container["volumeMounts"] if mount["mountPath"] == folder]
        assert mount["readOnly"] is True, name
        (volume,) = [volume for volume in pod["spec"]["volumes"] if volume["name"] == mount["name"]]
        assert volume["secret"] == {"secretName": NAME, "defaultMode": 0o440}, name
    assert {"operator", "router", "kb"} <= seen
    running = {pod["spec"]["containers"][0]["name"] for _, pod in rendering.pods(manifests)}
    assert seen == set(VARIABLES) & running


def test_the_key_is_random_and_long_enough(chart: Chart) -> None:
    keys = [_data(rendering.of_kind(chart.render(), "Secret")[f"jervis/{NAME}"])["signing"] for _ in range(2)]
    assert keys[0] != keys[1]
    assert len(runtoken.ring(keys)) == 2


def test_a_secret_of_yours_is_used_and_none_is_made(chart: Chart) -> None:
    rendered = chart.render("--set", "runToken.existingSecret=mine")
    assert rendering.of_kind(rendered, "Secret") == {}
    named = [
        volume["secret"]["secretName"]
        for _, pod in rendering.pods(rendered)
        for volume in pod["spec"]["volumes"]
        if volume["name"] == "run-token-keys"
    ]
    assert named == ["mine"] * 3


def test_no_namespace_but_the_release_s_holds_it(chart: Chart) -> None:
    rendered = chart.render("--set", "watchNamespaces={team-a,team-b}")
    assert list(rendering.of_kind(rendered, "Secret")) == [f"jervis/{NAME}"]


@pytest.fixture(scope="module")
def fresh(chart: Chart, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of its own, since the release is upgraded."""
    with clusters.running(chart, tmp_path_factory.mktemp("run-token")) as cluster:
        yield cluster


@pytest.mark.apiserver
def test_an_upgrade_keeps_the_key_and_each_step_of_a_rotation(fresh: Cluster, tmp_path: Path) -> None:
    fresh.helm("install", "jervis", str(CHART), "-n", "jervis")
    folder = tmp_path / "keys"
    folder.mkdir()

    def published() -> Mapping[str, bytes]:
        """What a pod has mounted, after an upgrade."""
        fresh.helm("upgrade", "jervis", str(CHART), "-n", "jervis", "--set", "operator.settings.idleSeconds=7")
        data = _data(json.loads(fresh.kubectl("-n", "jervis", "get", "secret", NAME, "-o", "json")))
        for entry in folder.iterdir():
            entry.unlink()
        for name, key in data.items():
            (folder / name).write_bytes(key)
        return data

    def patch(**keys: bytes | None) -> None:
        wanted = {name: key and base64.b64encode(key).decode() for name, key in keys.items()}
        patched = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME}, "data": wanted}
        fresh.kubectl(
            "-n", "jervis", "patch", "secret", NAME, "--type=merge", "--patch-file", "/dev/stdin", document=patched
        )

    first = published()["signing"]
    assert published() == {"signing": first}
    tokens = [_signed(folder)]
    second = b"second-" * 8
    patch(next=second)
    assert published() == {"signing": first, "next": second}
    tokens.append(_signed(folder))
    patch(signing=second, previous=first, next=None)
    assert published() == {"signing": second, "previous": first}
    tokens.append(_signed(folder))
    assert [_accepted(folder, token) for token in tokens] == [True, True, True]
    patch(previous=None)
    assert published() == {"signing": second}
    assert [_accepted(folder, token) for token in tokens] == [False, False, True]


def _data(secret: Manifest) -> dict[str, bytes]:
    return {name: base64.b64decode(text) for name, text in secret["data"].items()}


def _signed(folder: Path) -> str:
    return run_token(keys=keyring.Keyring(folder, lambda: 0.0)(), now=datetime.now(UTC))


def _accepted(folder: Path, token: str) -> bool:
    keys = keyring.Keyring(folder, lambda: 0.0)
    try:
        runtoken.Verifier(keys, lambda: datetime.now(UTC), runtoken.ROUTER).verify(token)
    except runtoken.UnknownKey:
        return False
    return True
