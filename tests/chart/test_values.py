"""Values: strict, described, and refused with the name of the field that is wrong."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic.alias_generators import to_camel

from controllers import settings
from crds import modelroles, pendingtask
from hack.chart import definitions, readme
from hack.chart import settings as generated
from kube import lease
from tests.chart.rendering import CHART, KUBERNETES, VARIANTS, Chart, Manifest
from tests.chart.test_processes import PROCESSES, schema_of, settings_of, snake

# (arguments, what the message must name)
REFUSED = [
    ("replica=1", "replica"),
    ("image.repo=x", "image"),
    ("image.repository=UPPER", "repository"),
    ("image.tag=not a tag", "tag"),
    ("image.digest=sha256:short", "digest"),
    ("image.pullPolicy=Sometimes", "pullPolicy"),
    ("caBundle.kind=File", "kind"),
    ("caBundle.key=a/b", "key"),
    ("router.extraVolumes[0].emptyDir.sizeLimit=1Mi", "extraVolumes"),
    ("job.extraVolumes[0].name=run-token", "extraVolumes"),
    ("kb.extraVolumeMounts[0].name=a,kb.extraVolumeMounts[0].mountPath=tmp", "mountPath"),
    ("job.extraEnv[0].value=x", "extraEnv"),
    ("job.annotations.a=1", "annotations"),
    ("runAsUser=0", "runAsUser"),
    ("fullnameOverride=Jervis_1", "fullnameOverride"),
    ("crds.enabled=maybe", "enabled"),
    ("watchNamespaces={Team A}", "watchNamespaces"),
    ("watchNamespaces=team-a", "watchNamespaces"),
    ("watchNamespaces={team-a},watchNamespaceSelector.matchLabels.team=yes", "watchNamespaceSelector"),
    ("watchNamespaceSelector.matchLabels.team=no spaces", "watchNamespaceSelector"),
    ("watchNamespaceSelector.matchExpressions={}", "watchNamespaceSelector"),
    ("rbac.connectionSecrets={*}", "connectionSecrets"),
    ("admission.enabled=perhaps", "enabled"),
    ("admission.limits.contentBytes=32769", "contentBytes"),
    ("admission.limits.types={Mail}", "types"),
    ("admission.limits.bytes=1", "bytes"),
    ("admission.limits.clients={a b}", "clients"),
    ("admission.limits.clients=acme", "clients"),
    ("admission.limits.modes={Urgent}", "modes"),
    ("admission.limits.queuePosition=0", "queuePosition"),
    ("admission.limits.queuePosition=never", "queuePosition"),
    ("watchNamespaces={team-a},admission.namespaces.team-a.modes={foreground}", "modes"),
    ("runToken.existingSecret=Mine_1", "existingSecret"),
    ("runToken.key=x", "key"),
    ("admission.namespaces.team-a.contentBytes=1", "admission.namespaces"),
    ("watchNamespaces={team-a},admission.namespaces.team-a.size=1", "size"),
    ("admission.extraWriters={it's me}", "extraWriters"),
    ("admission.allowedHosts.connections={https://example.com}", "connections"),
    ("admission.allowedHosts.gpuBackends={*}", "gpuBackends"),
    ("admission.quota.pendingTasks=0", "pendingTasks"),
    ("models.chat=two words", "chat"),
    ("models.numCtx.chat=4096", "models.numCtx.chat"),
    ("models.orchestrator=", "orchestrator"),
    ("models.qualifier=two words", "qualifier"),
    ("models.planner=two words", "planner"),
    ("models.numCtx.orchestrator=8192", "models.numCtx.orchestrator"),
    ("models.numCtx.qualifier=65536", "models.numCtx.qualifier"),
    ("models.numCtx.planner=2048", "models.numCtx.planner"),
    ("models.numCtx.planner=16384", "models.numCtx.planner"),
    ("models.fast=two words", "fast"),
    ("models.numCtx.fast=1024", "models.numCtx.fast"),
    ("models.decision=two words", "decision"),
    ("models.numCtx.decision=4096", "models.numCtx.decision"),
    ("models.numCtx.smart=4096", "smart"),
    (
        "gpuBackends[0].name=gpu-0,gpuBackends[0].url=http://gpu:11434,gpuBackends[0].modelSets[0].name=a,"
        "gpuBackends[0].modelSets[0].models[0].name=qwen3:*,gpuBackends[0].modelSets[0].models[0].numCtx=4096",
        "models.numCtx.planner: 8192 is more than the 4096 that gpuBackends entry gpu-0 loads qwen3:* with",
    ),
    ("mongodb.uri=http://database", "uri"),
    ("mongodb.uri=mongodb://user:secret@database", "uri"),
    ("weaviate.url=weaviate:8080", "url"),
    ("weaviate.grpcPort=70000", "grpcPort"),
    ("arangodb.url=graph:8529", "url"),
    ("operator.replicas=0", "replicas"),
    ("operator.replicas=two", "replicas"),
    ("operator.replicas=2", "operator.strategy"),
    ("operator.strategy=Blue", "strategy"),
    ("operator.command={}", "command"),
    ("operator.settings.leadDays=2", "leadDays"),
    ("operator.settings.scheduleLeadDays=-1", "scheduleLeadDays"),
    ("operator.resources.limit.memory=1Gi", "limit"),
    ("operator.resources.limits.memory=lots", "memory"),
    ("operator.extraEnv[0].value=x", "extraEnv"),
    ("router.replicas=0", "replicas"),
    ("router.auth.allowedAccounts={jervis}", "allowedAccounts"),
    ("router.auth.adminAccounts={jervis/*}", "adminAccounts"),
    ("router.auth.required=true", "router.auth.tokenReview"),
    ("router.auth.audiences={}", "audiences"),
    ("router.auth.accountCeilings.jervis=P1", "accountCeilings"),
    ("router.backendSecrets={*}", "backendSecrets"),
    ("router.aliases.gpt-4o=qwen*", "gpt-4o"),
    ("router.settings.requestLog=some", "requestLog"),
    ("router.service.type=ExternalName", "type"),
    ("router.service.port=0", "port"),
    ("router.ingress.enabled=true", "router.ingress.host"),
    ("router.ingress.host=https://models.example.com", "host"),
    ("router.ingress.hosts={models.example.com}", "hosts"),
    ("router.ingress.tlsSecret=Mine_1", "tlsSecret"),
    ("kb.ingress.enabled=true", "kb.ingress.host"),
    (
        ",".join(f"{one}.ingress.enabled=true,{one}.ingress.host=a.example" for one in ("router", "kb")),
        "kb.ingress.host",
    ),
    ("kb.profile=big", "profile"),
    ("kb.profile=distributed", "arangodb.url"),
    ("kb.local.persistence.size=much", "size"),
    ("kb.read.replicas=0", "replicas"),
    ("kb.settings.turnSeconds=60", "turnSeconds"),
    ("kb.settings.weaviateQuantization=zip", "weaviateQuantization"),
    ("kb.settings.arangoShards=0", "arangoShards"),
    ("kb.read.workers=0", "workers"),
    ("kb.read.autoscaling.enabled=true", "kb.read.autoscaling"),
    ("tika.autoscaling.enabled=true", "tika.autoscaling"),
    ("tika.enabled=true,tika.autoscaling.enabled=true,tika.autoscaling.minReplicas=5", "tika.autoscaling.minReplicas"),
    ("tika.enabled=true,tika.autoscaling.enabled=true,tika.resources.requests.cpu=null", "tika.resources.requests.cpu"),
    ("tika.enabled=true,tika.autoscaling.enabled=true,tika.resources=null", "tika.resources.requests.cpu"),
    ("tika.autoscaling.targetCPUUtilizationPercentage=0", "targetCPUUtilizationPercentage"),
    ("kb.tokens.existingSecret.name=tokens", "kb.tokens.clientSecret.name"),
    ("kb.settings.crawlNetworks={everything}", "crawlNetworks"),
    ("kb.settings.queueWorkers=0", "queueWorkers"),
    ("tika.url=tika:9998", "url"),
    ("tika.replicas=0", "replicas"),
    ("gpuBackends[0].url=http://gpu:11434", "name"),
    ("gpuBackends[0].name=gpu-0", "url"),
    ("gpuBackends[0].name=GPU_0,gpuBackends[0].url=http://gpu:11434", "name"),
    (",".join(f"gpuBackends[{i}].name=a,gpuBackends[{i}].url=http://a:{i}" for i in (0, 1)), "gpuBackends"),
    ("sources.enabled=true,joern.enabled=true", "joern.image"),
    ("joern.enabled=true,joern.image=joern:1", "joern.enabled"),
    ("joern.adHocQueries=true", "joern.adHocQueries"),
    ("sandbox.enabled=true", "kb.tokens"),
    ("agents.clusterState.namespaces={team-z}", "team-z is not watched"),
    ("agents.clusterState.logNamespaces={Team}", "logNamespaces"),
    ("sandbox.images.Python=python:3", "sandbox.images"),
    ("approvals.expireAfter=1d", "expireAfter"),
    ("approvals.default=Approve", "default"),
    ("job.flags.useEverything=true", "useEverything"),
    ("job.tools.mailRecipient={*@example.com}", "mailRecipient"),
    ("job.tools.gitConnection=Code", "gitConnection"),
    ("job.tools.vulnerabilities=all.zip", "vulnerabilities"),
    ("job.tools.mcpServers[0].name=weather", "url"),
    (
        ",".join(
            f"job.tools.mcpServers[{i}].name=x,job.tools.mcpServers[{i}].url=http://x,"
            f"job.tools.mcpServers[{i}].clients={{*}},job.tools.mcpServers[{i}].tools={{*}}"
            for i in (0, 1)
        ),
        "job.tools.mcpServers",
    ),
    ("admission.limits.taskFlags=1", "taskFlags"),
    ("sources.enabled=true,joern.enabled=true,joern.image=joern:1,joern.adHocQueries=true", "kb.tokens"),
    ("joern.maxJobs=0", "maxJobs"),
    ("joern.heap=much", "heap"),
    ("simulator.enabled=1", "enabled"),
    ("simulator.gpu.vram=24", "vram"),
    ("simulator.gpu.settings.speed=9", "speed"),
    ("simulator.cpu.settings.tokensPerSecond=-1", "tokensPerSecond"),
    ("podDisruptionBudget.maxUnavailable=0", "maxUnavailable"),
    ("networkPolicy.clients[0].pods=all", "clients"),
    ("networkPolicy.ingressControllers[0].pods=all", "ingressControllers"),
    ("networkPolicy.mongodb.ports={0}", "ports"),
    ("networkPolicy.internet=true", "internet"),
    ("monitoring.serviceMonitor.interval=often", "interval"),
    ("monitoring.serviceMonitor.relabelings=none", "relabelings"),
    ("monitoring.prometheusRule.runbooks=two words", "runbooks"),
]


@pytest.mark.parametrize(("values", "named"), REFUSED, ids=[values[:60] for values, _ in REFUSED])
def test_a_wrong_value_is_refused_by_name(chart: Chart, values: str, named: str) -> None:
    message = chart.refusal("--set", values)
    assert named in message.replace("/", "."), message


# Values files of charts that were older have none of these, and users clear a value by null.
ABSENT = [
    "networkPolicy.clients", "networkPolicy.ingressControllers", "router.ingress", "kb.ingress", "kb.read.autoscaling",
    "tika.autoscaling", "tika.resources",
]  # fmt: skip
PROFILES = {"local": "kb.profile=local", "distributed": "kb.profile=distributed,arangodb.url=http://graph:8529"}


def same(rendered: list[Manifest]) -> list[Manifest]:
    """What two renderings have in common: the key of run tokens is random, and Tika may have no resources."""
    for one in rendered:
        if one["kind"] == "Deployment" and one["metadata"]["name"] == "jervis-tika":
            one["spec"]["template"]["spec"]["containers"][0].pop("resources")
    return [one for one in rendered if one["kind"] != "Secret"]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("absent", ABSENT)
def test_a_value_that_is_null_is_as_its_default(chart: Chart, tmp_path: Path, absent: str, profile: str) -> None:
    values = f"{PROFILES[profile]},tika.enabled=true"
    assert same(chart.render("--set", f"{values},{absent}=null")) == same(chart.render("--set", values))
    chart.notes(tmp_path, "--set", f"{values},{absent}=null")


@pytest.mark.parametrize("profile", PROFILES)
def test_the_values_of_an_older_chart_are_enough(chart: Chart, tmp_path: Path, profile: str) -> None:
    """`helm upgrade --reuse-values` renders new templates with the old defaults."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for path in (path.split(".") for path in ABSENT):
        part = values
        for key in path[:-1]:
            part = part[key]
        del part[path[-1]]
    older = shutil.copytree(CHART, tmp_path / "jervis")
    (older / "values.yaml").write_text(yaml.safe_dump(values))
    chosen = ("--kube-version", KUBERNETES, "--set", f"{PROFILES[profile]},tika.enabled=true")
    done = chart.run("template", "jervis", str(older), "-n", "jervis", *chosen)
    assert done.returncode == 0, done.stderr
    rendered = [one for one in yaml.load_all(done.stdout, yaml.CSafeLoader) if one]
    assert same(rendered) == same(chart.render(*chosen))


def test_the_lists_of_tools_fit_into_an_environment(chart: Chart, tmp_path: Path) -> None:
    values = tmp_path / "values.json"
    hosts = [f"{number:04}{'x' * 300}.example.com" for number in range(500)]
    values.write_text(json.dumps({"job": {"tools": {"fetchHosts": hosts}}}))
    assert "job.tools: the lists have more than" in chart.refusal("-f", str(values))


@pytest.mark.parametrize("variant", VARIANTS)
def test_lint_finds_nothing(chart: Chart, variant: str) -> None:
    # A warning (or worse) fails under --strict.
    result = chart.run("lint", "--strict", str(CHART), "--kube-version", KUBERNETES, *VARIANTS[variant])
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_schema_is_strict_and_described_throughout() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    seen = 0
    for path, node in _nodes(schema, "values"):
        assert node.get("description"), f"{path} has no description"
        if node.get("properties") and path != "values.gpuBackends[]":
            assert node.get("additionalProperties") is False, f"{path} takes unknown keys"
        seen += 1
    assert seen > 100


def test_every_default_is_in_the_schema_and_the_other_way_round() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    # `global` is Helm's own. Settings, windows and the parts of `resources` may be left out, and so may the models of
    # roles that have that of models.chat: Helm cannot tell a default from a choice.
    chats = (f".models.{role.name}" for role in modelroles.ROLES if role.chat and role.default)
    optional = (".settings.", ".resources.", ".numCtx.", *chats)
    described = {path for path, _ in _nodes(schema, "") if "[]" not in path and path != ".global"}
    given = set(_keys(defaults, ""))
    for path in described:
        if not any(part in path for part in optional):
            assert any(f"{key}.".startswith(f"{path}.") for key in given), f"{path} has no default"
    for key in given:
        assert any(f"{key}.".startswith(f"{path}.") for path in described), f"{key} is not in the schema"


def test_the_limits_know_every_type_and_mode_of_a_task() -> None:
    limits = json.loads((CHART / "values.schema.json").read_text())["$defs"]["limits"]["properties"]
    namespaces = json.loads((CHART / "values.schema.json").read_text())["properties"]["admission"]["properties"][
        "namespaces"
    ]
    for described in (limits, namespaces["additionalProperties"]["properties"]):
        assert described["types"]["items"]["enum"] == [one.value for one in pendingtask.Type]
        assert set(described["modes"]["items"]["enum"]) == {one.value for one in pendingtask.Mode}


def test_the_operator_takes_what_the_schema_takes() -> None:
    """The bounds of each of `operator.settings`: a value that the chart lets through must not stop the process."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    described = schema["properties"]["operator"]["properties"]["settings"]["properties"]
    words = {"Ge": "minimum", "Gt": "exclusiveMinimum", "Le": "maximum", "Lt": "exclusiveMaximum"}
    for name, field in settings.Settings.model_fields.items():
        known = described.get(to_camel(name))
        if known is not None:
            bounds = {words[type(one).__name__]: _number(one) for one in field.metadata if type(one).__name__ in words}
            assert {key: value for key, value in known.items() if key in words.values()} == bounds, name
    assert described["leaseSeconds"]["minimum"] == lease.SHORTEST_DURATION


def _number(bound: Any) -> float:
    """The number of a bound of annotated_types."""
    found: float = next(getattr(bound, name) for name in ("ge", "gt", "le", "lt") if hasattr(bound, name))
    return found


def test_the_readme_lists_the_values_as_they_are() -> None:
    assert (CHART / "README.md").read_text() == readme.rendered(), "run `python -m hack.chart`"


def test_the_schema_has_the_settings_as_they_are() -> None:
    assert (CHART / "values.schema.json").read_text() == generated.rendered(), "run `python -m hack.chart`"


def test_a_setting_has_one_text_and_one_default() -> None:
    """Those of its class: values.yaml states a default only where it is another one, or where readers look for it."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    described = schema["properties"]["router"]["properties"]["settings"]["properties"]
    assert described["anonymousCeiling"]["enum"] == ["P0", "P1", "P2", "P3"]
    assert described["maxWaiting"] == {
        "type": "integer",
        "description": "Requests that may wait; more are refused with 429.",
        "default": 20_000,
        "minimum": 1,
    }
    operator = schema["properties"]["operator"]["properties"]["settings"]["properties"]
    assert operator["idleSeconds"]["default"] == 30
    tools = schema["properties"]["job"]["properties"]["tools"]["properties"]
    assert "default" not in tools["cloneBytes"], "values.yaml has it"


def test_every_value_has_its_default_in_the_readme() -> None:
    """Also where values.yaml has none: the default is that of the process, or it is computed."""
    rows = dict(re.findall(r"^\| `([^`]+)` \| (.*?) \| ", (CHART / "README.md").read_text(), flags=re.MULTILINE))
    assert len(rows) > 300
    assert [path for path, default in rows.items() if not default.strip()] == []
    given = yaml.safe_load((CHART / "values.yaml").read_text())
    places = [*((name, process[2]) for name, process in PROCESSES.items()), ("ollama-gpu", ("simulator", "cpu"))]
    for component, place in places:
        values = given
        for key in (*place, "settings"):
            values = values[key]
        fields = settings_of(component).model_fields
        for name in schema_of(component):
            path = ".".join((*place, "settings", name))
            default = values.get(name, fields[snake(name)].get_default(call_default_factory=True))
            if default is None or path in readme.COMPUTED:
                assert rows[path] == readme.COMPUTED[path]
            else:
                assert json.loads(rows[path].strip("`")) == (list(default) if isinstance(default, tuple) else default)


def test_the_chart_carries_the_committed_crds() -> None:
    wanted = definitions.templates()
    assert len(wanted) == 3
    found = {path: path.read_text() for path in definitions.TARGET.glob("*.yaml")}
    assert found == wanted, "run `python -m hack.chart`"


def _nodes(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property below the root with its path; references are followed, lists are marked with []."""
    yield from _below(schema, schema, path)


def _below(root: dict[str, Any], node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, child in node.get("properties", {}).items():
        described = {**_resolved(root, child), **child}
        yield f"{path}.{name}", described
        yield from _below(root, described, f"{path}.{name}")
    if isinstance(node.get("items"), dict):
        yield from _below(root, _resolved(root, node["items"]), f"{path}[]")


def _resolved(root: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref")
    found: dict[str, Any] = root["$defs"][reference.rpartition("/")[2]] if reference else node
    return found


def _keys(values: dict[str, Any], path: str) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _keys(value, f"{path}.{name}")
        else:
            yield f"{path}.{name}"


_LENGTHS = {
    "Service": 63,  # RFC 1123
    "Job": 63,  # a label of its pods
    "CronJob": 50,  # Kubernetes allows 52; `kubectl jervis models --check` adds 13 characters for its Job
    "StatefulSet": 52,  # a label of its pods adds a hash of 11
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_longest_name_of_a_release_fits_every_kind(chart: Chart, variant: str) -> None:
    longest = "release-" + 32 * "x"
    manifests = chart.render(*VARIANTS[variant], "--set", f"fullnameOverride={longest}")
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]
    assert any(name.startswith(longest) for _, name in names)
    assert [(kind, name) for kind, name in names if len(name) > _LENGTHS.get(kind, 253)] == []
