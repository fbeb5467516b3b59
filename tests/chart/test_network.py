"""Who reaches whom: the arrows of the blueprint's picture pass, and the rest does not."""

from __future__ import annotations

import pytest

from tests.chart import policies, rendering
from tests.chart.arrows import (
    APISERVER,
    CONFINED,
    DATA,
    DNS,
    FORBIDDEN,
    JOB,
    METADATA,
    NEEDED,
    NEEDED_ELSEWHERE,
    OUTSIDE,
    STRANGER,
    TENANT,
    VISITOR,
    Arrow,
    end,
)
from tests.chart.policies import End
from tests.chart.rendering import Chart, Manifest

LOCAL = ("--set", "simulator.enabled=true", "--set", "watchNamespaces={team-a}")


@pytest.fixture(scope="module")
def local(chart: Chart) -> list[Manifest]:
    return chart.render(*LOCAL)


def network_policies(manifests: list[Manifest]) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == "NetworkPolicy"]


def passes(manifests: list[Manifest], source: str | End, target: str | End, port: int) -> bool:
    """Whether a connection between two components, or ends, passes the policies among the objects."""
    rules = network_policies(manifests)
    return policies.allows(rules, end(manifests, source), end(manifests, target), port)


@pytest.mark.parametrize(("source", "target", "port"), [*NEEDED, *NEEDED_ELSEWHERE], ids=str)
def test_what_is_needed_passes(local: list[Manifest], source: str | End, target: str | End, port: int) -> None:
    assert passes(local, source, target, port)


@pytest.mark.parametrize(("source", "target", "port"), FORBIDDEN, ids=str)
def test_what_would_be_a_hole_is_shut(local: list[Manifest], source: str | End, target: str | End, port: int) -> None:
    assert not passes(local, source, target, port)


@pytest.mark.parametrize("kb", ["kb-read", "kb-write"])
def test_the_distributed_profile_is_closed_and_open_alike(chart: Chart, kb: str) -> None:
    rendered = chart.render(*rendering.VARIANTS["distributed"])
    needed: list[Arrow] = [
        ("operator", kb, 8080), (kb, "router", 11430), (kb, OUTSIDE, 8529), ("test", kb, 8080),
    ]  # fmt: skip
    for source, target, port in needed:
        assert passes(rendered, source, target, port), (source, target)
    holes: list[Arrow] = [(STRANGER, kb, 8080), (kb, APISERVER, 6443), (kb, OUTSIDE, 443)]
    for source, target, port in holes:
        assert not passes(rendered, source, target, port), (source, target)


def test_the_graph_store_is_reached_only_when_there_is_one(local: list[Manifest]) -> None:
    assert not passes(local, "kb", OUTSIDE, 8529)


def test_analyses_reach_the_sources_process_and_the_knowledge_base_alone(chart: Chart) -> None:
    rendered = chart.render(*LOCAL, "--set", "sources.enabled=true")
    job = End("jervis", {"jervis.dev/code-analysis": "7b1d"})
    for one in ("sources", "kb"):
        assert passes(rendered, job, one, 8080), one
        assert not passes(rendered, one, job, 8080), one
    for one, port in (("router", 11430), ("operator", 9090)):
        assert not passes(rendered, job, one, port), one
    for port in (443, 27017):
        assert not passes(rendered, job, OUTSIDE, port)


def test_pods_that_wait_for_a_run_reach_what_runs_reach_and_the_operator(chart: Chart) -> None:
    waiting = End("jervis", {"jervis.dev/task-uid": "warm", "jervis.dev/warm": "0123456789abcdef"})
    for size in (0, 1):
        rendered = chart.render(*LOCAL, "--set", f"job.warmPool.size={size}")
        for one, port in (("router", 11430), ("kb", 8080)):
            assert passes(rendered, waiting, one, port), one
        assert passes(rendered, waiting, "operator", 9091) == (size > 0)
        assert not passes(rendered, waiting, OUTSIDE, 443)


def test_commands_of_agents_reach_the_knowledge_base_alone(chart: Chart) -> None:
    tokens = "kb.tokens.existingSecret.name=tokens,kb.tokens.clientSecret.name=token"
    rendered = chart.render(*LOCAL, "--set", f"sources.enabled=true,sandbox.enabled=true,{tokens}")
    job = End("jervis", {"jervis.dev/sandbox": "7b1d"})
    assert passes(rendered, job, "kb", 8080)
    assert not passes(rendered, "kb", job, 8080)
    for one, port in (("sources", 8080), ("router", 11430), ("operator", 9090)):
        assert not passes(rendered, job, one, port), one
    for port in (443, 27017):
        assert not passes(rendered, job, OUTSIDE, port)


def test_runs_reach_the_operator_only_where_it_shows_them_their_namespace(chart: Chart) -> None:
    shown = "agents.clusterState.enabled=true"
    for given, reached in (((), False), (("--set", shown), True)):
        rendered = chart.render(*LOCAL, *given)
        assert passes(rendered, JOB, "operator", 9091) is reached
        assert not passes(rendered, JOB, "operator", 9090)


def test_runs_and_the_operator_alone_call_the_sources_process(chart: Chart) -> None:
    rendered = chart.render(*LOCAL, "--set", "sources.enabled=true")
    for one in (JOB, "operator"):
        assert passes(rendered, one, "sources", 8080)
    for one in (STRANGER, VISITOR, TENANT, "kb", "router"):
        assert not passes(rendered, one, "sources", 8080), one
    assert not passes(rendered, JOB, "sources", 9090)
    for port in (465, 587, 993):
        assert passes(rendered, "sources", OUTSIDE, port)


def test_clients_and_monitoring_are_let_in_by_value(chart: Chart) -> None:
    peer = "[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=tools"
    rendered = chart.render("--set", f"networkPolicy.clients{peer}")
    assert passes(rendered, VISITOR, "router", 11430)
    assert passes(rendered, VISITOR, "kb", 8080)
    assert not passes(rendered, VISITOR, "operator", 9090)
    rendered = chart.render("--set", f"networkPolicy.monitoring{peer}")
    assert passes(rendered, VISITOR, "operator", 9090)


def test_a_router_that_leaves_reaches_the_next_where_there_are_several(chart: Chart) -> None:
    for replicas in (1, 2):
        rendered = chart.render("--set", f"router.replicas={replicas}")
        assert passes(rendered, "router", "router", 11430) == (replicas > 1)


def test_the_operator_reaches_a_mail_server_only_when_there_is_one(chart: Chart) -> None:
    def ports(*more: str) -> set[int]:
        found = chart.render(*more)
        [policy] = [
            one for one in found if one["kind"] == "NetworkPolicy" and one["metadata"]["name"].endswith("operator")
        ]
        return {port["port"] for rule in policy["spec"]["egress"] for port in rule.get("ports", [])}

    mail = ("--set", "operator.settings.noticeMailServer=mail.example.com,operator.settings.noticeMailFrom=a@b.example")
    assert ports(*mail) - ports() == {465, 587}
    assert ports(*mail, "--set", "networkPolicy.mail.ports={2525}") - ports() == {2525}


def test_the_login_at_the_mail_server_comes_from_the_secret(chart: Chart) -> None:
    found = chart.render("--set", "operator.noticeMailSecret.name=mail,operator.noticeMailSecret.userKey=login")
    env = rendering.told(found, "operator")
    given = {
        name: env[f"JERVIS_OPERATOR_NOTICE_MAIL_{name}"]["valueFrom"]["secretKeyRef"] for name in ("USER", "PASSWORD")
    }
    assert given == {"USER": {"name": "mail", "key": "login"}, "PASSWORD": {"name": "mail", "key": "password"}}


def test_a_place_can_be_narrowed(chart: Chart) -> None:
    rendered = chart.render("--set", "networkPolicy.mongodb.to[0].ipBlock.cidr=10.1.0.0/16")
    inside = End(address="10.1.2.3")
    for source in ("kb", JOB):
        assert passes(rendered, source, inside, 27017)
        assert not passes(rendered, source, OUTSIDE, 27017)


_DATA = "namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=databases"


@pytest.mark.parametrize(
    ("uri", "inside", "beyond"),
    [
        ("mongodb://mongodb.jervis-data.svc:27017/jervis", [DATA], [OUTSIDE, STRANGER]),
        (
            "mongodb://m-0.m.jervis-data.svc.cluster.local:27017,m-1.m.jervis-data.svc:27017/j?x=y",
            [DATA],
            [OUTSIDE],
        ),
        ("mongodb+srv://m-svc.jervis-data.svc.cluster.local/jervis?tls=true", [DATA], [OUTSIDE]),
        ("mongodb://mongodb", [STRANGER], [OUTSIDE, DATA]),
        ("mongodb://MongoDB.Jervis-Data.SVC.cluster.local.", [DATA], [OUTSIDE]),
        ("mongodb://203.0.113.7:27017", [OUTSIDE], [DATA, STRANGER, End(address="203.0.113.8")]),
        ("mongodb://[2001:db8::7]:27017,203.0.113.7/jervis", [OUTSIDE, End(address="2001:db8::7")], [DATA]),
    ],
)
def test_where_the_database_is_follows_from_its_address(
    chart: Chart, uri: str, inside: list[End], beyond: list[End]
) -> None:
    escaped = uri.replace(",", "\\,")
    rendered = chart.render("--set", f"mongodb.uri={escaped}")
    for source in ("operator", "kb", JOB):
        assert all(passes(rendered, source, one, 27017) for one in inside)
        # The operator probes backends wherever they are.
        assert source == "operator" or not any(passes(rendered, source, one, 27017) for one in beyond)


@pytest.mark.parametrize(
    "given",
    [
        "mongodb.uri=mongodb://db.example.com:27017/jervis",
        "mongodb.uri=mongodb+srv://cluster0.abc.mongodb.net/jervis",
        "mongodb.uri=mongodb://mongodb.jervis-data.svc\\,db.example.com",
        "mongodb.uri=mongodb://mongodb.jervis-data.svc\\,",
        # Names outside that look like names of Services, and what is no address.
        "mongodb.uri=mongodb://db.svc.example.com",
        "mongodb.uri=mongodb://db.prod.svc.example.com",
        "mongodb.uri=mongodb://mongo.svc",
        "mongodb.uri=mongodb://10.5",
        "mongodb.uri=mongodb://999.1.1.1",
        "mongodb.uri=mongodb://1234",
        "mongodb.uri=mongodb://2001:db8::7",
        "mongodb.uri=mongodb://[fe80::1%25eth0]",
        "mongodb.existingSecret.name=database",
    ],
)
def test_where_it_does_not_the_chart_asks(chart: Chart, given: str) -> None:
    refused = chart.refusal("--set", given)
    assert "networkPolicy.mongodb.to" in refused
    assert "networkPolicy.enabled=false" in refused
    for more in (f"networkPolicy.mongodb.to[0].{_DATA}", "networkPolicy.enabled=false"):
        assert chart.render("--set", given, "--set", more)


def test_runs_reach_some_ports_of_the_database(chart: Chart) -> None:
    assert "networkPolicy.mongodb.ports" in chart.refusal("--set-json", "networkPolicy.mongodb.ports=[]")


@pytest.mark.parametrize("empty", ["to", "ports"])
def test_the_dns_is_somewhere(chart: Chart, empty: str) -> None:
    assert "networkPolicy.dns" in chart.refusal("--set-json", f"networkPolicy.dns.{empty}=[]")
    assert chart.render("--set-json", 'networkPolicy.dns.to=[{"ipBlock":{"cidr":"10.0.0.2/32"}}]')


def test_pods_with_foreign_code_or_text_reach_no_other_address_on_any_port(chart: Chart) -> None:
    tokens = "kb.tokens.existingSecret.name=tokens,kb.tokens.clientSecret.name=token"
    on = f"sources.enabled=true,sandbox.enabled=true,{tokens},transcription.engine=scripted"
    rendered = chart.render(*LOCAL, "--set", on)
    rules = network_policies(rendered)
    named = {port["port"] for rule in rules for way in rule["spec"].get("egress", ()) for port in way.get("ports", ())}
    for name, pod in CONFINED.items():
        for port in (53, 5353):
            assert passes(rendered, pod, DNS, port), name
        for beyond in (OUTSIDE, METADATA, APISERVER, STRANGER, TENANT, VISITOR):
            reached = [port for port in named | {1, 22, 80, 443, 65535} if passes(rendered, pod, beyond, port)]
            assert reached == [], (name, beyond)


def test_every_pod_is_selected_in_both_directions(manifests: list[Manifest]) -> None:
    rules = network_policies(manifests)
    for name, pod in rendering.pods(manifests):
        selected = [p["spec"] for p in rules if policies.selects(p["spec"]["podSelector"], pod["metadata"]["labels"])]
        assert {kind for spec in selected for kind in spec["policyTypes"]} == {"Ingress", "Egress"}, name


def test_no_rule_speaks_of_a_watched_namespace(local: list[Manifest]) -> None:
    rules = network_policies(local)
    assert {rule["metadata"]["namespace"] for rule in rules} == {"jervis"}
    assert "team-a" not in str(rules)


def test_they_can_be_switched_off(chart: Chart) -> None:
    assert not network_policies(chart.render("--set", "networkPolicy.enabled=false"))
