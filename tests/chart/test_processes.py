"""What the processes are told: every variable exists in the code that reads it, and every address leads somewhere."""

from __future__ import annotations

import importlib
import json
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic.alias_generators import to_snake
from pydantic_settings import BaseSettings

from contracts.api import history
from controllers import admission
from controllers.pendingtask import job
from crds.permits import Bound
from orchestrator_job.effects.tools import settings as run_tools
from tests.chart import rendering
from tests.chart.rendering import CHART, Chart, Manifest
from tests.controllers import build

# component -> (module with Settings, prefix, where its settings stand in the schema, fields that are not for the chart)
PROCESSES = {
    "operator": (
        "controllers.settings", "JERVIS_OPERATOR_", ("operator",),
        {
            "kubeconfig", "metrics_host", "history_host", "probe_loopback",
            # Tests set these in order to be fast.
            "archive_seconds", "deletes_per_second", "handover_seconds", "notice_seconds", "outcome_seconds",
            "probe_seconds", "recheck_seconds", "request_timeout", "resync_seconds", "stale_seconds",
            "wait_reason_seconds",
        },
    ),
    "router": (
        "router.settings", "JERVIS_ROUTER_", ("router",),
        {
            "kubeconfig", "gpu_backends", "secrets_dir", "host", "backend_loopback",
            # Tests set these in order to be fast.
            "circuit_pause_seconds", "client_bytes_per_second", "client_stall_seconds", "probe_interval_seconds",
            "probe_timeout_seconds", "secrets_every_seconds",
            # Callers wait as long.
            "deadlines",
        },
    ),
    "kb": (
        "kb.settings", "JERVIS_KB_", ("kb",),
        # Tests set these in order to be fast.
        {"erasure_interval", "recovery_interval", "recovery_patience"},
    ),
    "sources": (
        "sources.settings", "JERVIS_SOURCES_", ("sources",),
        {
            "kubeconfig", "metrics_host", "api_host", "loopback",
            # Tests set this in order to be fast.
            "claim_seconds",
        },
    ),
    "ollama-gpu": (
        "tests.fakes.ollama.settings", "FAKE_OLLAMA_", ("simulator", "gpu"),
        {
            "script", "faults", "ready_file", "default_window_counts", "drain_seconds", "embedding_threads",
            "keep_alive", "max_queue", "num_ctx", "unload_seconds",
        },
    ),
}  # fmt: skip
EVERYTHING = (
    *rendering.VARIANTS["everything"], "--set", rendering.DATABASE,
    "--set", "operator.noticeMailSecret.name=mail",
    "--set", "arangodb.url=http://graph:8529,arangodb.existingSecret.name=graph",
    "--set", "models.numCtx.orchestrator=32768,models.numCtx.qualifier=16384,models.numCtx.vision=8192",
    "--set", "models.fast=qwen2.5:1.5b,models.numCtx.fast=4096,models.numCtx.decision=16384",
    "--set", "models.embeddingBefore=nomic-embed-text,models.embeddingBeforeInstruction=Find: ",
    "--set", "models.embeddingPassagePrefix=passage: ,models.embeddingBeforePassagePrefix=old: ",
    "--set", "models.embeddingWindow=256",
)  # fmt: skip


@pytest.fixture(scope="module")
def everything(chart: Chart) -> list[Manifest]:
    return chart.render(*EVERYTHING)


def settings_of(component: str) -> type[BaseSettings]:
    module = importlib.import_module(PROCESSES[component][0])
    found: type[BaseSettings] = module.Settings
    return found


def schema_of(component: str) -> dict[str, Any]:
    """{camelCase setting: its schema} of a component."""
    node = json.loads((CHART / "values.schema.json").read_text())
    for key in PROCESSES[component][2]:
        node = node["properties"][key]
    found: dict[str, Any] = node["properties"]["settings"]["properties"]
    return found


def snake(camel: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in camel)


def run_of(rendered: list[Manifest], monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """The pod of a run, as the rendered operator makes it."""
    template = rendering.operator_settings(rendered, monkeypatch).template()
    pod: Manifest = job.manifest(build.task(), 1, "run", template)["spec"]["template"]
    return pod


def variables(manifests: list[Manifest], component: str) -> set[str]:
    """Names of a component's environment variables, as fields of its Settings."""
    prefix = PROCESSES[component][1]
    names = rendering.told(manifests, component)
    assert all(name.startswith(prefix) for name in names), names
    return {name.removeprefix(prefix).lower() for name in names}


@pytest.mark.parametrize("component", PROCESSES)
def test_every_variable_is_read_by_the_process(everything: list[Manifest], component: str) -> None:
    assert variables(everything, component) - set(settings_of(component).model_fields) == set()


@pytest.mark.parametrize("component", PROCESSES)
def test_every_setting_of_a_process_can_be_given(everything: list[Manifest], component: str) -> None:
    fields = set(settings_of(component).model_fields) - PROCESSES[component][3]
    offered = {snake(name) for name in schema_of(component)}
    given = variables(everything, component)
    assert offered - fields == set(), "values that the process does not know"
    assert fields - offered - given == set(), "settings that no value reaches"


@pytest.mark.parametrize("component", PROCESSES)
def test_the_bounds_of_the_schema_are_those_of_the_code(component: str) -> None:
    """Each setting given at its default passes both the schema's type and the process's own check."""
    fields = settings_of(component).model_fields
    types: dict[str, type | tuple[type, ...]] = {
        "integer": int, "number": (int, float), "string": str, "boolean": bool, "array": (list, tuple),
        "object": dict,
    }  # fmt: skip
    for name, schema in schema_of(component).items():
        default = fields[snake(name)].get_default(call_default_factory=True)
        if default is not None:
            assert isinstance(default, types[schema["type"]]), f"{name}: {default!r} is no {schema['type']}"
            assert not isinstance(default, int | float) or default >= schema.get("minimum", default), name


def test_a_setting_becomes_a_variable_that_the_process_understands(
    chart: Chart, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered = chart.render(
        "--set-json", 'router.settings={"maxBodyBytes": 1000000000, "progressSeconds": 0.5, "logLevel": "debug"}'
    )
    rendering.tell(rendered, "router", monkeypatch)
    read = settings_of("router")().model_dump()
    assert (read["max_body_bytes"], read["progress_seconds"], read["log_level"]) == (10**9, 0.5, "debug")
    assert (read["host"], read["port"]) == ("", 11430)  # every address, of IPv6 and of IPv4
    limit = rendering.told(rendered, "router")["JERVIS_ROUTER_MEMORY_LIMIT_BYTES"]["valueFrom"]["resourceFieldRef"]
    assert limit == {"containerName": "router", "resource": "limits.memory"}
    unlimited = chart.render("--set", "router.resources.limits=null")
    assert "JERVIS_ROUTER_MEMORY_LIMIT_BYTES" not in rendering.told(unlimited, "router")


def test_models_for_many_or_large_images_reach_the_knowledge_base(
    chart: Chart, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = '[{"model": "qwen3-vl:32b", "images": 5}, {"model": "qwen3-vl:4b", "bytes": 9000000}]'
    rendered = chart.render("--set-json", f'kb.settings={{"visionModels": {table}, "pdfPages": 3, "insideImages": 0}}')
    rendering.tell(rendered, "kb", monkeypatch)
    read = settings_of("kb")().model_dump()
    assert read["vision_models"] == [
        {"model": "qwen3-vl:32b", "images": 5, "bytes": 0},
        {"model": "qwen3-vl:4b", "images": 1, "bytes": 9_000_000},
    ]
    assert (read["vision_model"], read["pdf_pages"], read["inside_images"]) == ("qwen3-vl:8b", 3, 0)


def test_the_bounds_of_code_reach_the_knowledge_base(chart: Chart) -> None:
    bounds = {"codeFiles": 150, "codeFileBytes": 50000, "codeTotalBytes": 5000000, "codeSeconds": 30.5}
    bounds["codeMemoryBytes"] = 536870912
    rendered = chart.render("--set-json", f"kb.settings={json.dumps(bounds)}")
    variables = rendering.told(rendered, "kb").items()
    assert {name: one["value"] for name, one in variables if name.startswith("JERVIS_KB_CODE")} == {
        "JERVIS_KB_CODE_FILES": "150",
        "JERVIS_KB_CODE_FILE_BYTES": "50000",
        "JERVIS_KB_CODE_MEMORY_BYTES": "536870912",
        "JERVIS_KB_CODE_QUERIES": "false",
        "JERVIS_KB_CODE_SECONDS": "30.5",
        "JERVIS_KB_CODE_TOTAL_BYTES": "5000000",
    }


@pytest.mark.parametrize(
    ("given", "links"),
    [
        ([], "0"),
        (["kb.settings.linksPerDocument=7"], "7"),
        (["networkPolicy.enabled=false"], None),
        (["networkPolicy.kbEgress[0].ports[0].port=443"], None),
    ],
)
def test_links_become_tasks_where_a_site_can_be_reached(chart: Chart, given: list[str], links: str | None) -> None:
    objects = chart.render(*(part for value in given for part in ("--set", value)))
    assert rendering.told(objects, "kb").get("JERVIS_KB_LINKS_PER_DOCUMENT", {}).get("value") == links


def test_models_and_their_windows_reach_the_processes(chart: Chart) -> None:
    def given(*values: str) -> dict[str, str]:
        rendered = chart.render(*(part for value in values for part in ("--set", value)))
        found: dict[str, str] = {}
        for component in ("operator", "kb"):
            variables = rendering.told(rendered, component).items()
            found |= {name: one["value"] for name, one in variables if "value" in one}
        return found

    plain = given()
    assert plain["JERVIS_OPERATOR_PLANNER_MODEL"] == "qwen3:14b"
    assert plain["JERVIS_OPERATOR_PLANNER_NUM_CTX"] == "8192"
    assert json.loads(plain["JERVIS_OPERATOR_WINDOWS"]) == [
        {"role": "orchestrator", "model": "qwen3-coder:30b", "numCtx": 16384},
        {"role": "planner", "model": "qwen3:14b", "numCtx": 8192},
        {"role": "qualifier", "model": "qwen2.5:7b", "numCtx": 16384},
        {"role": "decision", "model": "gpt-oss:120b", "numCtx": 16384},
    ]
    assert (plain["JERVIS_OPERATOR_NUM_CTX"], plain["JERVIS_KB_EXTRACT_NUM_CTX"]) == ("16384", "16384")
    assert "JERVIS_KB_VISION_NUM_CTX" not in plain
    # As large as what the backend loads is no more than it.
    entry = "gpuBackends[0].name=gpu-0,gpuBackends[0].url=http://gpu:11434,gpuBackends[0].modelSets[0].name=a"
    model = "gpuBackends[0].modelSets[0].models[0]"
    named = given(
        "models.planner=,models.numCtx.orchestrator=65536,models.numCtx.qualifier=16384,models.numCtx.vision=4096",
        f"{entry},{model}.name=qwen3-coder:30b,{model}.numCtx=65536",
        "models.fast=qwen2.5:1.5b,models.numCtx.fast=2048",
    )
    assert (named["JERVIS_KB_FAST_MODEL"], named["JERVIS_KB_FAST_NUM_CTX"]) == ("qwen2.5:1.5b", "2048")
    assert not {"JERVIS_KB_FAST_MODEL", "JERVIS_KB_FAST_NUM_CTX"} & set(plain)
    assert "JERVIS_OPERATOR_PLANNER_MODEL" not in named
    assert named["JERVIS_OPERATOR_NUM_CTX"] == "65536"
    assert (named["JERVIS_KB_EXTRACT_NUM_CTX"], named["JERVIS_KB_VISION_NUM_CTX"]) == ("16384", "4096")
    assert [one["role"] for one in json.loads(named["JERVIS_OPERATOR_WINDOWS"])] == [
        "orchestrator", "qualifier", "fast", "decision", "vision",
    ]  # fmt: skip


def test_the_simulated_planner_is_on_the_cpu(chart: Chart) -> None:
    def served(*values: str) -> dict[str, list[str]]:
        rendered = chart.render("--set", "simulator.enabled=true", *values)
        backends = rendering.of_kind(rendered, "GpuBackend")
        found = {}
        for kind in ("gpu", "cpu"):
            has = rendering.told(rendered, f"ollama-{kind}")["FAKE_OLLAMA_MODELS"]["value"].split(",")
            sets = backends[f"jervis/jervis-ollama-{kind}"]["spec"]["modelSets"]
            found[kind] = [model["name"] for one in sets for model in one["models"]]
            assert set(found[kind]) == set(has)
        return found

    assert "qwen3:14b" in served()["cpu"]
    assert "qwen3:14b" not in served()["gpu"]
    fast = served("--set", "models.fast=qwen2.5:1.5b")
    assert all("qwen2.5:1.5b" in fast[kind] for kind in ("gpu", "cpu"))
    same = served("--set", "models.planner=qwen3-coder:30b")
    assert ("qwen3-coder:30b" in same["gpu"], "qwen3-coder:30b" in same["cpu"]) == (True, False)


def test_a_router_ends_before_it_is_killed(chart: Chart) -> None:
    rendered = chart.render("--set", "router.terminationGracePeriodSeconds=45")
    pod = rendering.process(rendered, "router")
    assert pod["spec"]["terminationGracePeriodSeconds"] == 45
    assert rendering.environment(pod)["JERVIS_ROUTER_DRAIN_SECONDS"]["value"] == "35"


def test_every_address_of_ours_is_a_service_with_a_pod_behind(manifests: list[Manifest]) -> None:
    services = rendering.of_kind(manifests, "Service")
    pods = [pod for _, pod in rendering.pods(manifests)]
    seen = set()
    for pod in pods:
        values = [entry.get("value", "") for entry in rendering.environment(pod).values()]
        for text in [*values, *pod["spec"]["containers"][0].get("command", ())]:
            if not text.startswith("http://jervis-"):
                continue
            address = urlsplit(text)
            name, namespace, _ = str(address.hostname).split(".")
            service = services[f"{namespace}/{name}"]["spec"]
            port = next(p for p in service["ports"] if p["port"] == address.port)
            behind = [p for p in pods if service["selector"].items() <= p["metadata"]["labels"].items()]
            assert len(behind) == 1, text
            named = {p["name"] for p in behind[0]["spec"]["containers"][0]["ports"]}
            assert port["targetPort"] in named, text
            seen.add(name)
    assert {"jervis-router", "jervis-kb-read", "jervis-kb-write", "jervis-operator"} <= seen


def test_every_long_running_pod_is_probed(manifests: list[Manifest]) -> None:
    for manifest in manifests:
        if manifest["kind"] in ("Deployment", "StatefulSet"):
            for container in rendering.containers(manifest["spec"]["template"]):
                names = {port["name"] for port in container["ports"]}
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    assert container[probe]["httpGet"]["port"] in names, manifest["metadata"]["name"]
                # A missing neighbour is no reason to restart.
                assert container["livenessProbe"]["httpGet"]["path"] != "/readyz", manifest["metadata"]["name"]


def test_an_outage_of_a_store_takes_no_pod_of_the_knowledge_base_out_of_its_service(chart: Chart) -> None:
    rendered = chart.render(*rendering.VARIANTS["distributed"])
    pods = [
        rendering.of_kind(rendered, "Deployment")["jervis/jervis-kb-read"],
        rendering.of_kind(rendered, "StatefulSet")["jervis/jervis-kb-write"],
    ]
    for pod in pods:
        [container] = pod["spec"]["template"]["spec"]["containers"]
        assert container["readinessProbe"]["httpGet"]["path"] == "/servez"


def test_what_owns_a_resource_alone_is_never_doubled(chart: Chart) -> None:
    deployments = rendering.of_kind(chart.render("--set", "simulator.enabled=true"), "Deployment")
    for name in ("router", "kb", "operator", "ollama-gpu", "ollama-cpu"):
        spec = deployments[f"jervis/jervis-{name}"]["spec"]
        assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate"), name


def test_each_mode_has_its_pods_in_the_distributed_profile(chart: Chart) -> None:
    numbers = "kb.read.autoscaling.enabled=false,kb.read.replicas=5,kb.write.replicas=2"
    rendered = chart.render(*rendering.VARIANTS["distributed"], "--set", numbers)
    read = rendering.of_kind(rendered, "Deployment")["jervis/jervis-kb-read"]["spec"]
    write = rendering.of_kind(rendered, "StatefulSet")["jervis/jervis-kb-write"]["spec"]
    assert (read["replicas"], write["replicas"]) == (5, 2)
    modes = [rendering.environment(spec["template"])["JERVIS_KB_MODE"]["value"] for spec in (read, write)]
    assert modes == ["read", "write"]
    for spec in (read, write):
        given = rendering.environment(spec["template"])
        assert given["JERVIS_KB_RECORDS"]["value"] == "mongodb"
        # An erasure that waits for a pod names it.
        assert given["JERVIS_KB_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert write["volumeClaimTemplates"][0]["metadata"]["name"] == "data"
    assert f"jervis/{write['serviceName']}" in rendering.of_kind(rendered, "Service")
    assert "jervis/jervis-kb" not in rendering.of_kind(rendered, "Deployment")


@pytest.mark.parametrize(
    ("arguments", "volume", "claims"),
    [
        ((), {"persistentVolumeClaim": {"claimName": "jervis-kb"}}, ["jervis/jervis-kb"]),
        (("--set", "kb.local.persistence.existingClaim=mine"), {"persistentVolumeClaim": {"claimName": "mine"}}, []),
        (("--set", "kb.local.persistence.enabled=false"), {"emptyDir": {}}, []),
    ],
    ids=["own claim", "existing claim", "no claim"],
)
def test_where_the_local_knowledge_base_keeps_its_data(
    chart: Chart, arguments: tuple[str, ...], volume: Manifest, claims: list[str]
) -> None:
    rendered = chart.render(*arguments)
    pod = rendering.process(rendered, "kb")
    assert next(v for v in pod["spec"]["volumes"] if v["name"] == "data") == {"name": "data", **volume}
    made = rendering.of_kind(rendered, "PersistentVolumeClaim")
    assert list(made) == claims
    assert all(c["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"} for c in made.values())


def test_runs_refer_to_the_secret_of_the_database_and_are_given_no_copy(chart: Chart) -> None:
    secret = ("--set", f"{rendering.DATABASE},mongodb.existingSecret.key=address")
    for arguments, expected in ((secret, ("database", "address")), ((), None)):
        given = rendering.told(chart.render(*arguments), "operator")
        names = [given.get(f"JERVIS_OPERATOR_MONGODB_{key}", {}).get("value") for key in ("SECRET", "SECRET_KEY")]
        assert names == list(expected or (None, None))
        assert ("valueFrom" in given["JERVIS_OPERATOR_MONGODB_URI"]) is (expected is not None)


def test_a_standby_is_kept_off_the_leader_s_node_unless_told_otherwise(chart: Chart) -> None:
    def spread(*more: str) -> list[dict[str, Any]] | None:
        two = ("--set", "operator.replicas=2,operator.strategy=RollingUpdate")
        spec: dict[str, Any] = rendering.process(chart.render(*two, *more), "operator")["spec"]
        return spec.get("topologySpreadConstraints")

    (found,) = spread() or []
    assert (found["topologyKey"], found["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    assert found["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "operator"
    assert spread("--set-json", 'operator.affinity={"nodeAffinity": {}}') is None
    assert "topologySpreadConstraints" not in rendering.process(chart.render(), "operator")["spec"]


def test_clients_reach_the_operator_as_they_are_written(chart: Chart, monkeypatch: pytest.MonkeyPatch) -> None:
    given = 'operator.settings.clients={"acme": {"scheduleLeadDays": 5}, "beta": {"team": ["Ada"]}}'
    rendered = chart.render("--set-json", given)
    known = rendering.operator_settings(rendered, monkeypatch).client_terms()
    assert (known.of("acme").lead.days, known.of("beta").team, known.of("gamma").lead.days) == (5, ("Ada",), 2)


def test_the_operator_reads_the_limits_that_the_policies_check(chart: Chart, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the apiserver about creation are the operator's about what was there before, without sizes."""
    rendered = chart.render(
        "--set", "watchNamespaces={team-a},admission.limits.clients={shared},admission.limits.queuePosition=1000000",
        "--set", "admission.namespaces.team-a.modes={Background},admission.namespaces.team-a.contentBytes=4096",
        "--set", "admission.namespaces.team-a.queuePosition=false,admission.namespaces.team-a.pendingTasks=5",
        "--set", "admission.namespaces.team-a.taskFlags=true",
        "--set-json", 'admission.namespaces.team-a.permits=[{"tools":["sendMail"],"targets":["*@example.com"]}]',
    )  # fmt: skip
    known = rendering.operator_settings(rendered, monkeypatch).admitted(lambda _: {})
    assert known is not None
    every = (Bound(tools=("*",), targets=("*",), may_share=True),)
    clients = ("shared",)
    assert known.default == admission.Limits((), clients, (), queue_position=1_000_000, task_flags=False, permits=every)
    own = (Bound(tools=("sendMail",), targets=("*@example.com",)),)
    limits = admission.Limits(modes=("Background",), queue_position=False, task_flags=True, permits=own)
    assert known.own == {"team-a": limits}
    off = chart.render("--set", "admission.enabled=false")
    assert "JERVIS_OPERATOR_ADMISSION" not in rendering.told(off, "operator")


def test_flags_approvals_and_sandboxes_reach_the_operator(chart: Chart, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = chart.render(
        "--set", "job.flags.useDagExecution=true,approvals.expireAfter=24h,approvals.default=GiveUp",
        "--set", "sandbox.enabled=true,sandbox.images.python=python:3,sandbox.seconds=90",
        "--set", "kb.tokens.existingSecret.name=tokens,kb.tokens.clientSecret.name=token",
    )  # fmt: skip
    config = rendering.operator_settings(rendered, monkeypatch)
    assert {flag.value for flag, on in config.template().features.items() if on} == {"useDagExecution"}
    assert (config.limits().approval_expires, config.limits().approval_default) == (timedelta(days=1), "GiveUp")
    commands = config.sandboxes()
    assert commands is not None
    assert (dict(commands.images), commands.seconds, commands.memory) == ({"python": "python:3"}, 90, "2Gi")
    assert config.template().environment["JERVIS_SANDBOX_IMAGES"] == '["python"]'


def test_the_reach_of_tools_gets_from_the_values_to_the_run(chart: Chart, monkeypatch: pytest.MonkeyPatch) -> None:
    server = {"name": "weather", "url": "http://weather.tools:8080/mcp", "clients": ["acme"], "tools": ["forecast*"]}
    given = {
        "gitConnection": "code", "pushBranches": ["code/jervis/*"], "fetchHosts": ["docs.example.com"],
        "changeBytes": 1 << 20, "vulnerabilities": "/osv/all.zip", "mcpServers": [{**server, "modes": {"*": "read"}}],
    }  # fmt: skip
    rendered = chart.render("--set-json", f"job.tools={json.dumps(given)}")
    for name, value in rendering.operator_settings(rendered, monkeypatch).template().environment.items():
        monkeypatch.setenv(name, value)
    tools = run_tools.Settings().model_dump(mode="json", exclude_defaults=True, by_alias=True)
    assert tools == {to_snake(name): value for name, value in given.items()}
    shown = rendering.told(rendered, "kb")["JERVIS_KB_AGENT_SERVERS"]["value"]
    assert json.loads(shown) == given["mcpServers"]


def test_whose_state_is_shown_reaches_the_operator_and_runs(chart: Chart, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JERVIS_OPERATOR_NAMESPACE", "jervis")
    off = rendering.operator_settings(chart.render("--set", "watchNamespaces={team-a}"), monkeypatch)
    assert (off.cluster_state(), off.template().cluster_state_url) == (None, "")
    shown = "agents.clusterState.enabled=true,agents.clusterState.logNamespaces={team-b}"
    config = rendering.operator_settings(
        chart.render("--set", "watchNamespaces={team-a,team-b}", "--set", shown), monkeypatch
    )
    allowed = config.cluster_state()
    assert allowed is not None
    states = [(one, allowed.state(one), allowed.log(one)) for one in ("jervis", "team-a", "team-b")]
    assert states == [("jervis", False, False), ("team-a", True, False), ("team-b", True, True)]
    assert config.template().cluster_state_url == "http://jervis-operator.jervis.svc:9091"


def test_the_way_to_the_history(chart: Chart) -> None:
    """Where the command looks: the account, its address, the service's port, and the rights on the way."""
    rendered = chart.render("--set", "watchNamespaces={team-a}")
    accounts = rendering.of_kind(rendered, "ServiceAccount")
    for namespace in ("jervis", "team-a"):
        account = accounts[f"{namespace}/jervis-history"]
        assert account["metadata"]["annotations"][history.ADDRESS_ANNOTATION] == "jervis/jervis-operator:history"
        assert account["metadata"]["labels"]["app.kubernetes.io/component"] == history.COMPONENT
        assert account["automountServiceAccountToken"] is False
    service = rendering.of_kind(rendered, "Service")["jervis/jervis-operator"]
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    environment = rendering.told(rendered, "operator")
    assert str(ports["history"]) == environment["JERVIS_OPERATOR_HISTORY_PORT"]["value"]
    assert environment["JERVIS_OPERATOR_HISTORY_ACCOUNT"]["value"] == "jervis-history"


CLOSED = ("--set", "router.auth.required=true,router.auth.tokenReview=true,router.auth.audiences={ollama}")


def test_the_release_s_own_pods_show_the_router_who_they_are(chart: Chart, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = chart.render(*CLOSED, "--set", "router.auth.allowedAccounts={x/y},watchNamespaces={team-a}")
    told = rendering.told(rendered, "router")
    assert json.loads(told["JERVIS_ROUTER_ALLOWED_ACCOUNTS"]["value"]) == [
        "x/y", "jervis/jervis-kb", "jervis/jervis-operator",
    ]  # fmt: skip
    tokens = {}
    for name, pod in rendering.pods(rendered):
        found = [one["projected"] for one in pod["spec"]["volumes"] if one["name"] == "router-token"]
        if not found:
            continue
        (source,) = found[0]["sources"]
        (container,) = pod["spec"]["containers"]
        (mount,) = (one for one in container["volumeMounts"] if one["name"] == "router-token")
        variables = {entry["value"] for key, entry in rendering.environment(pod).items() if key.endswith("TOKEN_FILE")}
        assert variables == {f"{mount['mountPath']}/{source['serviceAccountToken']['path']}"}
        assert mount["readOnly"] is True
        tokens[name] = source["serviceAccountToken"]["audience"]
    shown = ("Deployment/jervis-operator", "Deployment/jervis-kb", "Pod/jervis-test-models")
    assert tokens == dict.fromkeys(shown, "ollama")


def test_nobody_gets_a_token_for_a_router_that_reviews_none(chart: Chart) -> None:
    for _, pod in rendering.pods(chart.render()):
        assert "router-token" not in [volume["name"] for volume in pod["spec"]["volumes"]]


def test_neither_an_update_nor_a_drain_waits_for_a_standby_router(chart: Chart) -> None:
    """A standby is never Ready: with one pod that must stay available, both would wait for ever."""
    rendered = chart.render("--set", "router.replicas=2")
    spec = rendering.of_kind(rendered, "Deployment")["jervis/jervis-router"]["spec"]
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == spec["replicas"] == 2
    assert spec["template"]["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/activez"
    (address,) = (v for v in spec["template"]["spec"]["containers"][0]["env"] if v["name"] == "JERVIS_ROUTER_ADDRESS")
    assert address["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}  # where who still waits is passed on
    budget = rendering.of_kind(rendered, "PodDisruptionBudget")["jervis/jervis-router"]["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (2, "AlwaysAllow")


def test_the_operator_is_told_by_kopfs_flags_what_to_serve(chart: Chart) -> None:
    def container(*arguments: str) -> dict[str, Any]:
        first: dict[str, Any] = rendering.process(chart.render(*arguments), "operator")["spec"]["containers"][0]
        return first

    named = container("--set", "watchNamespaces={team-b,team-a}")
    assert named["command"][:2] == ["kopf", "run"]
    assert named["args"] == ["--namespace=jervis", "--namespace=team-a", "--namespace=team-b"]
    labelled = container("--set", "watchNamespaceSelector.matchLabels.team=yes,watchNamespaceSelector.matchLabels.a=b")
    assert labelled["args"] == ["--all-namespaces"]
    selector = [one["value"] for one in labelled["env"] if one["name"] == "JERVIS_OPERATOR_NAMESPACE_SELECTOR"]
    assert selector == ["a=b,team=yes"]


def test_the_router_writes_its_usage_where_the_chart_made_a_place(everything: list[Manifest], chart: Chart) -> None:
    name = "jervis-router-usage"
    assert rendering.told(everything, "router")["JERVIS_ROUTER_USAGE_CONFIG_MAP"]["value"] == name
    assert "data" not in rendering.of_kind(everything, "ConfigMap")[f"jervis/{name}"], "an update would reset it"
    rules = rendering.of_kind(everything, "Role")["jervis/jervis-router"]["rules"]
    (rule,) = [rule for rule in rules if "configmaps" in rule["resources"]]
    assert (rule["resourceNames"], rule["verbs"]) == ([name], ["get", "patch"])
    assert f"jervis/{name}" not in rendering.of_kind(chart.render(), "ConfigMap")


def test_the_knowledge_base_shows_weaviate_the_key_of_a_secret(chart: Chart) -> None:
    name = "JERVIS_KB_WEAVIATE_API_KEY"
    rendered = chart.render("--set", "weaviate.existingSecret.name=vectors")
    given = [rendering.environment(pod) for _, pod in rendering.pods(rendered)]
    secret = {"secretKeyRef": {"name": "vectors", "key": "api-key"}}
    assert [one[name] for one in given if name in one] == [{"name": name, "valueFrom": secret}]
    assert all(name not in rendering.environment(spec) for _, spec in rendering.pods(chart.render()))


def test_workers_are_for_the_reading_knowledge_base(chart: Chart) -> None:
    distributed = ("--set", "kb.profile=distributed,arangodb.url=http://graph:8529,kb.read.workers=3")
    given = {owner: rendering.environment(pod) for owner, pod in rendering.pods(chart.render(*distributed))}
    found = {owner: one["JERVIS_KB_WORKERS"]["value"] for owner, one in given.items() if "JERVIS_KB_WORKERS" in one}
    assert {owner.rpartition("/")[2]: value for owner, value in found.items()} == {
        "jervis-kb-read": "3", "jervis-kb-write": "1",
    }  # fmt: skip


def test_runs_are_told_of_the_sources_process_where_there_is_one(
    everything: list[Manifest], chart: Chart, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(rendered: list[Manifest]) -> str | None:
        variables = rendering.environment(run_of(rendered, monkeypatch))
        url: str | None = variables.get("JERVIS_SOURCES_URL", {}).get("value")
        return url

    assert told(chart.render()) is None
    assert told(everything) == "http://jervis-sources.jervis.svc:8080"


def test_tokens_open_the_api_of_the_sources_process_where_they_are_given(chart: Chart) -> None:
    name = "JERVIS_SOURCES_TOKENS_FILE"
    given = ("--set", "sources.enabled=true,sources.tokens.existingSecret.name=hooks")
    pod = rendering.process(chart.render(*given), "sources")
    assert rendering.environment(pod)[name]["value"] == "/etc/jervis/tokens/tokens.yaml"
    [mount] = [one for one in pod["spec"]["containers"][0]["volumeMounts"] if one["name"] == "tokens"]
    assert (mount["mountPath"], mount["readOnly"]) == ("/etc/jervis/tokens", True)
    [volume] = [one for one in pod["spec"]["volumes"] if one["name"] == "tokens"]
    assert volume["secret"]["secretName"] == "hooks"
    assert name not in rendering.told(chart.render(*given[:1], "sources.enabled=true"), "sources")


@pytest.mark.parametrize("component", ["operator", "router", "kb", "job"])
def test_volumes_variables_and_the_account_of_a_process_can_be_given(
    chart: Chart, monkeypatch: pytest.MonkeyPatch, component: str
) -> None:
    volume = {"name": "client-certificate", "secret": {"secretName": "mongodb-client"}}
    mount = {"name": "client-certificate", "mountPath": "/etc/mongodb"}
    variable = {"name": "HEADERS", "valueFrom": {"secretKeyRef": {"name": "otel", "key": "headers"}}}
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/jervis"}
    given = {
        "extraVolumes": [volume], "extraVolumeMounts": [mount], "extraEnv": [variable],
        "serviceAccountAnnotations": role,
    }  # fmt: skip
    rendered = chart.render("--set-json", f"{component}={json.dumps(given)}")
    pod = run_of(rendered, monkeypatch) if component == "job" else rendering.process(rendered, component)
    (container,) = pod["spec"]["containers"]
    assert volume in pod["spec"]["volumes"]
    assert mount in container["volumeMounts"]
    assert variable in container["env"]
    account = rendering.of_kind(rendered, "ServiceAccount")[f"jervis/jervis-{component}"]
    assert account["metadata"]["annotations"] == role


def test_runs_are_placed_by_values(chart: Chart, monkeypatch: pytest.MonkeyPatch) -> None:
    placed: dict[str, Any] = {
        "priorityClassName": "batch", "runtimeClassName": "gvisor", "nodeSelector": {"pool": "agents"},
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
    }  # fmt: skip
    toleration = {"key": "dedicated", "operator": "Exists"}
    values = {**placed, "tolerations": [toleration], "annotations": {"sidecar.istio.io/inject": "false"}}
    rendered = chart.render("--set-json", f"job={json.dumps(values)}")
    pod = run_of(rendered, monkeypatch)
    assert {key: pod["spec"][key] for key in placed} == placed
    assert toleration in pod["spec"]["tolerations"]
    assert pod["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
    assert not {*placed} & {*run_of(chart.render(), monkeypatch)["spec"]}
