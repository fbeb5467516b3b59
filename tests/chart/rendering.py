"""Helm as the tests use it: render the chart with some values, and find things in what comes out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers import settings

CHART = Path(__file__).resolve().parents[2] / "charts" / "jervis"
KUBERNETES = "1.37.0"
Manifest = dict[str, Any]

# Where it is does not follow from a Secret.
DATABASE = "mongodb.existingSecret.name=database,networkPolicy.mongodb.to[0].ipBlock.cidr=203.0.113.0/24"
_ARANGO = "arangodb.url=http://arangodb.arangodb.svc:8529"
# Sets of arguments that together render every template: the tests that hold for any installation run on each.
VARIANTS: dict[str, tuple[str, ...]] = {
    "defaults": (),
    "demo": ("-f", str(CHART / "values-demo.yaml")),
    "distributed": (
        "--set", "kb.profile=distributed", "--set", _ARANGO, "--set", "arangodb.existingSecret.name=graph",
        "--set", DATABASE, "--set", "rbac.connectionSecrets={imap}",
        "--set", "caBundle.name=authorities", "--set", "kb.read.autoscaling.enabled=true",
    ),
    "everything": (
        "--set", "job.warmPool.size=2",
        "--set", "simulator.enabled=true", "--set", "watchNamespaces={team-a,team-b}", "--set", "operator.replicas=2",
        "--set", "operator.strategy=RollingUpdate", "--set", "monitoring.serviceMonitor.enabled=true",
        "--set", "monitoring.prometheusRule.enabled=true", "--set", "monitoring.dashboard.enabled=true",
        "--set", "admission.quota.enabled=true", "--set", "admission.allowedHosts.connections={*.example.com}",
        "--set", "admission.allowedHosts.gpuBackends={gpu-0.lab}",
        "--set", "admission.namespaces.team-a.contentBytes=4096", "--set", "router.replicas=2",
        "--set", "router.auth.tokensSecret=router-tokens", "--set", "router.auth.tokenReview=true",
        "--set", "router.auth.required=true,router.auth.accountCeilings.team-a/*=P2",
        "--set", "router.backendSecrets={gpu-token},router.aliases.gpt-4o=qwen2.5:7b", "--set", "tika.enabled=true",
        "--set", "sources.enabled=true,sources.tokens.existingSecret.name=sources-tokens",
        "--set", "transcription.engine=faster-whisper",
        "--set", "joern.enabled=true,joern.image=registry.example.com/jervis-joern:1,joern.adHocQueries=true",
        "--set", "sandbox.enabled=true,sandbox.images.python=registry.example.com/python:3",
        "--set", "kb.tokens.existingSecret.name=kb-tokens,kb.tokens.clientSecret.name=kb-token",
        "--set", "models.reranker=bge-reranker-v2-m3",
        "--set", "agents.clusterState.enabled=true,agents.clusterState.logNamespaces={team-a}",
        "--set", "weaviate.existingSecret.name=vectors", "--set", "networkPolicy.kbEgress[0].ports[0].port=443",
        "--set", "tika.autoscaling.enabled=true", "--set", "router.ingress.enabled=true,kb.ingress.enabled=true",
        "--set", "router.ingress.host=models.example.com,router.ingress.tlsSecret=models-tls",
        "--set", "router.ingress.className=traefik,kb.ingress.host=knowledge.example.com",
        "--set", "router.ingress.annotations.cert-manager\\.io/cluster-issuer=letsencrypt",
    ),
}  # fmt: skip


class Chart:
    """The chart, seen through one Helm program."""

    def __init__(self, helm: Path) -> None:
        self.helm = helm

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Any Helm command; the caller looks at the status."""
        # It lives for a moment: there is no need to collect its garbage.
        environment = {**(os.environ if env is None else env), "GOGC": "off"}
        return subprocess.run([self.helm, *arguments], capture_output=True, text=True, env=environment)

    def render(self, *arguments: str, namespace: str = "jervis") -> list[Manifest]:
        """The objects of an installation as release `jervis`."""
        text = self.template(*arguments, namespace=namespace)
        assert text.returncode == 0, text.stderr
        # Parsed by libyaml: a rendered chart is large, and every test of it begins with this.
        return [document for document in yaml.load_all(text.stdout, yaml.CSafeLoader) if document]

    def refusal(self, *arguments: str) -> str:
        """What Helm says to values that it must refuse."""
        text = self.template(*arguments)
        assert text.returncode != 0, f"accepted: {arguments}"
        return text.stderr

    def template(self, *arguments: str, namespace: str = "jervis") -> subprocess.CompletedProcess[str]:
        """`helm template` with these arguments."""
        return self.run("template", "jervis", str(CHART), "-n", namespace, "--kube-version", KUBERNETES, *arguments)

    def notes(self, directory: Path, *arguments: str) -> str:
        """What an installation prints. `helm template` leaves NOTES.txt out, so it is rendered as part of an object."""
        whole = shutil.copytree(CHART, directory / "jervis")
        (whole / "templates" / "NOTES.txt").rename(whole / "NOTES.txt")
        notes = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes"}, "data": {"text": "TEXT"}}
        text = json.dumps(notes).replace('"TEXT"', '{{ tpl (.Files.Get "NOTES.txt") . | toJson }}')
        (whole / "templates" / "notes.yaml").write_text(text)
        shown = ("-n", "jervis", "--show-only", "templates/notes.yaml", "--kube-version", KUBERNETES)
        done = self.run("template", "jervis", str(whole), *shown, *arguments)
        assert done.returncode == 0, done.stderr
        said: str = yaml.safe_load(done.stdout)["data"]["text"]
        assert "Is everything up?" in said
        return said


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Every pod that the objects make: (kind/name, {metadata, spec}), with the volumes of its claims."""
    for manifest in manifests:
        name = f"{manifest['kind']}/{manifest['metadata']['name']}"
        if manifest["kind"] == "Pod":
            yield name, manifest
        elif manifest["kind"] in ("Deployment", "StatefulSet", "Job"):
            template = manifest["spec"]["template"]
            claims = [claim["metadata"]["name"] for claim in manifest["spec"].get("volumeClaimTemplates", [])]
            claimed = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
            spec = {**template["spec"], "volumes": [*template["spec"]["volumes"], *claimed]}
            yield name, {**template, "spec": spec}


def containers(pod: Manifest) -> list[Manifest]:
    """All containers of a pod, whatever their kind."""
    spec = pod["spec"]
    return [*spec.get("initContainers", []), *spec["containers"], *spec.get("ephemeralContainers", [])]


def of_kind(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    """Objects of one kind by `namespace/name`."""
    return {f"{m['metadata'].get('namespace', '')}/{m['metadata']['name']}": m for m in manifests if m["kind"] == kind}


def environment(pod: Manifest) -> dict[str, Manifest]:
    """The first container's environment variables by name."""
    return {entry["name"]: entry for entry in pod["spec"]["containers"][0].get("env", [])}


def process(manifests: list[Manifest], name: str) -> Manifest:
    """The pod of the Deployment `jervis-NAME`."""
    pod: Manifest = of_kind(manifests, "Deployment")[f"jervis/jervis-{name}"]["spec"]["template"]
    return pod


def told(manifests: list[Manifest], name: str) -> dict[str, Manifest]:
    """The variables of that pod's process by name."""
    return environment(process(manifests, name))


def tell(manifests: list[Manifest], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process the variables of that one, but for those that come from elsewhere."""
    for variable, entry in told(manifests, name).items():
        if "value" in entry:
            monkeypatch.setenv(variable, entry["value"])


def simulated(manifests: list[Manifest]) -> set[str]:
    """The models that the simulators have."""
    variables = [environment(pod).get("FAKE_OLLAMA_MODELS", {}) for _, pod in pods(manifests)]
    return {model for entry in variables for model in entry.get("value", "").split(",")}


def operator_settings(manifests: list[Manifest], monkeypatch: pytest.MonkeyPatch) -> settings.Settings:
    """The operator's settings as its process reads them from the environment of its pod."""
    tell(manifests, "operator", monkeypatch)
    return settings.read()
