"""What an Ingress opens, whom the policies let in for it, and by which name the router may be called then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contracts.browsers import Hosts
from router import settings
from tests.chart import policies, rendering
from tests.chart.arrows import STRANGER, VISITOR, end
from tests.chart.policies import End
from tests.chart.rendering import Chart, Manifest

BOTH = (
    "router.ingress.enabled=true,router.ingress.host=models.example.com,"
    "kb.ingress.enabled=true,kb.ingress.host=knowledge.example.com"
)
INSIDE = "networkPolicy.ingressControllers[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=traefik"
CONTROLLER = End("traefik", {"app": "traefik"})


def leads(ingress: Manifest, host: str, path: str) -> str | None:
    """The Service to which a request goes, by the rules of Ingress v1: Exact before the longest Prefix by elements."""
    [rule] = ingress["spec"]["rules"]
    if rule["host"] != host:
        return None
    found: list[tuple[int, str]] = []
    for one in rule["http"]["paths"]:
        wanted, service = one["path"], one["backend"]["service"]
        assert service["port"] == {"name": "http"}
        if one["pathType"] == "Exact" and path == wanted:
            found.append((len(path) + 1, service["name"]))
        elif one["pathType"] == "Prefix" and f"{path}/".startswith(f"{wanted.rstrip('/')}/"):
            found.append((len(wanted), service["name"]))
    return max(found)[1] if found else None


def ingresses(manifests: list[Manifest]) -> dict[str, Manifest]:
    return rendering.of_kind(manifests, "Ingress")


@pytest.mark.parametrize(
    ("name", "host", "inside", "outside"),
    [
        (
            "jervis-router", "models.example.com",
            ["/", "/api/chat", "/v1/chat/completions", "/router/", "/router/events"],
            ["/metrics", "/healthz", "/readyz", "/activez", "/apis"],
        ),
        (
            "jervis-kb-read", "knowledge.example.com",
            ["/kb", "/kb/", "/api/v1/retrieve", "/api/v1/openapi.json", "/mcp"],
            ["/", "/metrics", "/healthz", "/readyz", "/servez"],
        ),
    ],
    ids=["router", "kb"],
)  # fmt: skip
@pytest.mark.parametrize("profile", ["local", "distributed"])
def test_it_leads_to_what_clients_call_and_to_nothing_else(
    chart: Chart, profile: str, name: str, host: str, inside: list[str], outside: list[str]
) -> None:
    rendered = chart.render("--set", f"{BOTH},kb.profile={profile},arangodb.url=http://graph:8529")
    ingress = ingresses(rendered)[f"jervis/{name}"]
    assert {path: leads(ingress, host, path) for path in inside} == dict.fromkeys(inside, name)
    assert {path: leads(ingress, host, path) for path in outside} == dict.fromkeys(outside)
    assert leads(ingress, "other.example.com", inside[0]) is None
    ports = rendering.of_kind(rendered, "Service")[f"jervis/{name}"]["spec"]["ports"]
    assert [port["name"] for port in ports] == ["http"]


def test_class_certificate_and_annotations_are_the_values(chart: Chart) -> None:
    values = {
        "enabled": True, "className": "traefik", "host": "models.example.com", "tlsSecret": "models-tls",
        "annotations": {"nginx.ingress.kubernetes.io/proxy-read-timeout": "3600"},
    }  # fmt: skip
    ingress = ingresses(chart.render("--set-json", f"router.ingress={json.dumps(values)}"))["jervis/jervis-router"]
    assert ingress["metadata"]["annotations"] == values["annotations"]
    assert ingress["spec"]["ingressClassName"] == "traefik"
    assert ingress["spec"]["tls"] == [{"hosts": ["models.example.com"], "secretName": "models-tls"}]
    plain = ingresses(chart.render("--set", BOTH))["jervis/jervis-router"]
    assert set(plain["spec"]) == {"rules"}
    assert "annotations" not in plain["metadata"]


def test_there_is_none_by_default(chart: Chart) -> None:
    assert not ingresses(chart.render())


def test_its_controller_reaches_what_has_one(chart: Chart) -> None:
    def reached(*values: str) -> set[str]:
        rendered = chart.render("--set", ",".join((INSIDE, *values)))
        rules = [one for one in rendered if one["kind"] == "NetworkPolicy"]
        names = {pod["metadata"]["labels"]["app.kubernetes.io/component"] for _, pod in rendering.pods(rendered)}
        ports = {"router": 11430, "operator": 9090} | dict.fromkeys(names & {"kb", "kb-read", "kb-write"}, 8080)
        for other in (STRANGER, VISITOR):
            assert not any(policies.allows(rules, other, end(rendered, to), port) for to, port in ports.items())
        return {to for to, port in ports.items() if policies.allows(rules, CONTROLLER, end(rendered, to), port)}

    router = "router.ingress.enabled=true,router.ingress.host=models.example.com"
    knowledge = "kb.ingress.enabled=true,kb.ingress.host=knowledge.example.com"
    distributed = "kb.profile=distributed,arangodb.url=http://graph:8529"
    assert reached() == set()
    assert reached(router) == {"router"}
    assert reached(knowledge) == {"kb"}
    assert reached(knowledge, distributed) == {"kb-read"}


@pytest.mark.parametrize("absent", ["clients", "ingressControllers"])
def test_lists_that_are_null_let_no_further_caller_in(chart: Chart, absent: str) -> None:
    found = [
        [one for one in chart.render("--set", values) if one["kind"] == "NetworkPolicy"]
        for values in (BOTH, f"{BOTH},networkPolicy.{absent}=null")
    ]
    assert found[0] == found[1]


TOKENS = {
    "router": "router.auth.required=true,router.auth.tokenReview=true",
    "kb": "kb.tokens.existingSecret.name=tokens,kb.tokens.clientSecret.name=token",
}


@pytest.mark.parametrize(("component", "host"), [("router", "models.example.com"), ("kb", "knowledge.example.com")])
@pytest.mark.parametrize(
    ("values", "named", "other"),
    [
        pytest.param("{both}", True, False, id="open"),
        pytest.param("{both},{further}", True, False, id="further name"),
        # Every caller shows a token, so a name says nothing: none is asked for, and any may be added.
        pytest.param("{both},{tokens}", True, True, id="tokens"),
        pytest.param("{both},{tokens},{further}", True, False, id="tokens and names"),
        pytest.param("{component}.ingress.host={host}", False, False, id="off"),
    ],
)  # fmt: skip
def test_a_process_answers_by_the_name_of_its_ingress(
    chart: Chart, monkeypatch: pytest.MonkeyPatch, component: str, host: str, values: str, named: bool, other: bool
) -> None:
    further = f"{component}.settings.allowedHosts={{further.example.org}}"
    rendered = chart.render(
        "--set",
        values.format(both=BOTH, component=component, host=host, tokens=TOKENS[component], further=further),
    )
    if component == "router":
        rendering.tell(rendered, "router", monkeypatch)
        read = settings.Settings()
        # As router/wiring.py decides it.
        hosts = Hosts(read.allowed_hosts) if read.allowed_hosts or not read.token_required else Hosts(["*"])
    else:
        told = rendering.told(rendered, "kb")
        listed = json.loads(told.get("JERVIS_KB_ALLOWED_HOSTS", {"value": "[]"})["value"])
        # As kb/service/serving.py decides it.
        hosts = Hosts(listed) if listed or "JERVIS_KB_TOKENS_FILE" not in told else Hosts(["*"])
    assert hosts.allow(host.encode()) is named
    assert hosts.allow(b"rebound.evil.com") is other
    if "{further}" in values:
        assert hosts.allow(b"further.example.org")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (BOTH, {"ingressControllers", "models.example.com", "knowledge.example.com"}),
        (f"{BOTH},{INSIDE}", {"models.example.com", "knowledge.example.com"}),
        (f"{BOTH},networkPolicy.enabled=false", {"models.example.com", "knowledge.example.com"}),
        (
            f"{BOTH},{INSIDE},{TOKENS['router']},{TOKENS['kb']}",
            set(),
        ),
        ("tika.enabled=true", set()),
    ],
    ids=["open", "let in", "no policies", "tokens", "off"],
)
def test_the_notes_say_who_gets_in_and_who_does_not(chart: Chart, tmp_path: Path, values: str, said: set[str]) -> None:
    notes = chart.notes(tmp_path, "--set", values)
    words = ("ingressControllers", "models.example.com", "knowledge.example.com")
    assert {word for word in words if word in notes} == said
