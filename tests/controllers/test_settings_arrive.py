"""Every setting of the operator, at a value that is not its default, arrives where it is used.

The whole runtime is built once with a value of its own for each setting, and is searched for it; the settings
themselves are left out of the search.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import json
import os
import subprocess
import sys
import threading
import types
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml
from aiohttp import ClientSession
from motor.motor_asyncio import AsyncIOMotorClient

from contracts.tokens import keyring
from controllers import namespaces, settings, tracing
from controllers.connection.reconcile import Connections
from controllers.gpubackend import contexts
from controllers.gpubackend.probe import Judge
from controllers.memory import mongo as memories
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import ObservedState
from controllers.runtime import app
from controllers.runtime.clients import KB_SECONDS
from crds import approvals, flags, scope, tools
from crds.phases import Phase
from crds.priority import SILENCE, Priority
from kb import api, client
from tests import waiting
from tests.controllers.build import NOW, task

ROOT = Path(__file__).resolve().parents[2]
VALUES: dict[str, Any] = {
    "kb_url": "http://kb-write.test:1",
    "kb_read_url": "http://kb-read.test:1",
    "router_url": "http://router.test:1",
    "warm_pool": 89,
    "handover_url": "http://handover.test:1",
    "sources_url": "http://sources.test:1",
    "cluster_state_url": "http://operator.test:1",
    "transcription_engine": "scripted",
    "transcription_image": "image.test/transcription:1",
    "transcription_at_once": 97,
    "transcription_scratch": "1307Mi",
    "joern_image": "image.test/joern:1",
    "joern_max_jobs": 89,
    "joern_memory": "1321Mi",
    "joern_heap": "1327m",
    "sandbox_max_jobs": 83,
    "sandbox_memory": "1373Mi",
    "sandbox_cpu": "1381m",
    "router_token_file": "/nowhere/router-token",
    "mongodb_uri": "mongodb://127.0.0.1:1/?appname=uri-of-the-test",
    "image": "image.test/jervis:1",
    "image_pull_policy": "Never",
    "num_ctx": 16411,
    "planner_num_ctx": 4099,
    "job_run_as_user": 1009,
    "deletes_per_second": 863,
    "notice_secret_file": "/notice-key-of-the-test",
    "notice_mail_security": "tls",
    "notice_mail_from": "Jervis <from@of-the-test.example>",
    "qualify_at_once": 877,
    "sources": True,
    "approval_default": approvals.Default.GIVE_UP,
}
INSIDE: dict[str, tuple[Any, object]] = {
    "cluster_state_namespaces": (["shown-of-the-test"], "shown-of-the-test"),
    "cluster_state_log_namespaces": (["logged-of-the-test"], "logged-of-the-test"),
    "transcription_model": ("/models-of-the-test", "/models-of-the-test"),
    "transcription_resources": ({"limits": {"memory": "1319Mi"}}, "1319Mi"),
    "transcription_node_selector": ({"node.test/transcription": "yes"}, "node.test/transcription"),
    "transcription_tolerations": (
        [{"key": "transcription-taint-of-the-test", "operator": "Exists"}],
        "transcription-taint-of-the-test",
    ),
    "transcription_volumes": (
        [{"name": "transcription-volume-of-the-test", "emptyDir": {}}],
        "transcription-volume-of-the-test",
    ),
    "transcription_volume_mounts": (
        [{"name": "transcription-mount-of-the-test", "mountPath": "/mnt"}],
        "transcription-mount-of-the-test",
    ),
    "sandbox_images": ({"python": "image.test/sandbox:1"}, "image.test/sandbox:1"),
    "run_token_keys": ("/nowhere/run-token-keys", "/run-token-keys"),
    "windows": ([contexts.Window(role="role-of-the-test", model="m", num_ctx=1)], "role-of-the-test"),
    "job_resources": ({"limits": {"memory": "1013Mi"}}, "1013Mi"),
    "job_environment": ({"VARIABLE_OF_THE_TEST": "yes"}, "VARIABLE_OF_THE_TEST"),
    "job_flags": ({flags.Flag.DAG_EXECUTION: True}, "useDagExecution"),
    "job_tools": (tools.Tools(fetch_hosts=("tools.test",)), "tools.test"),
    "job_labels": ({"label.test/one": "yes"}, "label.test/one"),
    "job_annotations": ({"annotation.test/one": "yes"}, "annotation.test/one"),
    "job_node_selector": ({"node.test/one": "yes"}, "node.test/one"),
    "job_tolerations": ([{"key": "taint-of-the-test", "operator": "Exists"}], "taint-of-the-test"),
    "job_affinity": ({"podAffinity": {"affinity-of-the-test": []}}, "affinity-of-the-test"),
    "job_topology_spread_constraints": ([{"topologyKey": "zone-of-the-test"}], "zone-of-the-test"),
    "job_extra_env": ([settings.EnvVar(name="EXTRA_OF_THE_TEST", value="yes")], "EXTRA_OF_THE_TEST"),
    "job_extra_volumes": ([{"name": "volume-of-the-test", "emptyDir": {}}], "volume-of-the-test"),
    "job_extra_volume_mounts": ([{"name": "mount-of-the-test", "mountPath": "/mnt"}], "mount-of-the-test"),
    "job_image_pull_secrets": (["pull-secret-of-the-test"], "pull-secret-of-the-test"),
    "removal_percent": (37, 0.37),
    "notice_networks": (["10.99.0.0/16"], "10.99.0.0"),
    "connection_hosts": (["hosts-of-the-test.example"], "hosts-of-the-test.example"),
    "team": (["person@of-the-test.example"], "person@of-the-test.example"),
    "admission": ({"namespaces": {"team-of-the-test": {"clients": ["limited-of-the-test"]}}}, "limited-of-the-test"),
    "clients": ({"client-of-the-test": {"scheduleLeadDays": 1109}}, timedelta(days=1109)),
    "unserved_days": (1279, timedelta(days=1279)),
    "approval_expire_after": ("1291s", timedelta(seconds=1291)),
}
"""Those of which something else arrives: the value, and what is looked for."""
VALUES |= {name: value for name, (value, _) in INSIDE.items()}
SOUGHT = {name: sought for name, (_, sought) in INSIDE.items()}
SWITCHES: dict[str, Any] = {
    "sandbox_enabled": True,
    "joern_enabled": True,
    "joern_ad_hoc_queries": True,
    "probe_loopback": True,
    "connection_file_urls": True,
    "tracing": True,
    "reserve_gpu": False,
    "outcomes": False,
    "notices": False,
}
AT_THE_START: dict[str, Any] = {
    "metrics_host": "127.0.0.1",
    "metrics_port": 0,
    "history_host": "127.0.0.1",
    "history_port": 0,
    "workers": 5,
}
IN_MAIN: dict[str, Any] = {"namespace_selector": "team=of-the-test", "log_level": "warning"}
VALUES |= {
    name: f"the-{name}-of-the-test".replace("_", "-") if field.annotation is str else 3001 + 2 * number
    for number, (name, field) in enumerate(settings.Settings.model_fields.items())
    if field.annotation in (str, int, float) and name not in {*VALUES, *SWITCHES, *AT_THE_START, *IN_MAIN, "kubeconfig"}
}
"""Any text, or an odd number that nothing else has, for each setting that takes one."""
_OPAQUE = (settings.Settings, type, types.ModuleType, asyncio.AbstractEventLoop, threading.Thread)


def given() -> settings.Settings:
    return settings.Settings(**{**VALUES, **SWITCHES, **AT_THE_START, **IN_MAIN})


def _below(found: Any) -> Iterator[Any]:
    """What an object refers to: its fields, its items, what a function has closed over."""
    if isinstance(found, dict | types.MappingProxyType):
        yield from found.keys()
        yield from found.values()
    elif isinstance(found, list | tuple | set | frozenset | deque):
        yield from found
    if isinstance(found, types.MethodType):
        yield from (found.__self__, found.__func__)
    elif isinstance(found, functools.partial):
        yield from (found.func, found.args, found.keywords)
    elif isinstance(found, types.FunctionType):
        yield from (cell.cell_contents for cell in found.__closure__ or () if cell.cell_contents is not None)
    else:
        yield from getattr(found, "__dict__", {}).values()
        for kind in type(found).__mro__:
            names = kind.__dict__.get("__slots__", ())
            for name in (names,) if isinstance(names, str) else names:
                value = inspect.getattr_static(found, name, None)
                yield value.__get__(found) if hasattr(value, "__get__") and hasattr(found, name) else None


def everything(root: object) -> list[Any]:
    """All that can be reached from `root`, but for the settings, classes and modules."""
    seen: dict[int, Any] = {}
    left: list[Any] = [root]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, _OPAQUE):
            continue
        seen[id(one)] = one
        if isinstance(one, Path):
            left.append(str(one))
        elif not isinstance(one, str | bytes | int | float | timedelta):
            left.extend(_below(one))
    return list(seen.values())


@pytest_asyncio.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[app.Runtime]:
    """Built from the values, with an apiserver that is not there."""
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "clusters": [{"name": "one", "cluster": {"server": "http://127.0.0.1:1/api-of-the-test"}}],
        "users": [{"name": "one", "user": {}}],
    }  # fmt: skip
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    keys = tmp_path / "run-token-keys"
    keys.mkdir()
    (keys / keyring.SIGNING).write_text("key-" * 12)
    config = given().model_copy(update={"kubeconfig": str(tmp_path / "config"), "run_token_keys": str(keys)})
    made = app.Runtime(config, namespaces.Scope(config.namespace, (config.namespace,)))
    yield made
    if not made._clients.lease.alive():
        made._clients.lease.start()  # it is ended below
    await made.stop()


async def test_a_call_that_waits_for_a_model_is_given_up_after_the_router(runtime: app.Runtime) -> None:
    seen: list[float] = []

    async def note(request: httpx.Request) -> None:
        seen.append(request.extensions["timeout"]["read"])
        raise httpx.ConnectError("noted")

    clients = runtime._clients
    clients._kb_http.event_hooks = {"request": [note]}
    where = scope.Scope(client_id="acme")
    draft = api.IngestRequest(scope=where, source_urn="urn:x", kind="note", content="x")
    for urgency in (Priority.P0, Priority.P3):
        with pytest.raises(client.Unavailable):
            await clients.knowledge.ingest(draft, urgency=urgency)
    with pytest.raises(client.Unavailable):
        await clients.knowledge.fetch(where, "key")
    urgent, background, other = seen
    assert urgent > SILENCE[Priority.P0]
    assert background > SILENCE[Priority.P3]
    assert other == KB_SECONDS


def test_each_setting_is_tried() -> None:
    tried = {*VALUES, *SWITCHES, *AT_THE_START, *IN_MAIN, "kubeconfig"}
    assert tried == set(settings.Settings.model_fields), "a new setting needs a value here"
    default = settings.Settings(_env_file=None)
    for name, value in {**VALUES, **SWITCHES}.items():
        assert getattr(default, name) != value, f"{name} is given its default"


async def test_each_setting_arrives(runtime: app.Runtime) -> None:
    found = everything(runtime)
    assert not [one for one in found if isinstance(one, settings.Settings)]
    texts = [one for one in found if isinstance(one, str)]
    others = {one for one in found if isinstance(one, int | float | timedelta)}
    missing = []
    for name, value in {**VALUES, **SOUGHT, "kubeconfig": "api-of-the-test"}.items():
        if isinstance(value, str):
            arrived = any(value in text for text in texts)
        elif isinstance(value, timedelta):
            arrived = value in others
        else:
            arrived = bool({value, timedelta(seconds=value), timedelta(days=value)} & others)
        if not arrived:
            missing.append(name)
    assert missing == []
    (judge,) = (one for one in found if isinstance(one, Judge))
    (connections,) = (one for one in found if isinstance(one, Connections))
    assert (judge._loopback, connections._file_urls) == (True, True)
    assert any(isinstance(one, tracing.Telemetry) for one in found)


async def test_the_process_has_one_client_of_mongodb(runtime: app.Runtime) -> None:
    (store,) = (one for one in everything(runtime) if isinstance(one, AsyncIOMotorClient))
    options = store.delegate.options
    assert options.pool_options.appname == "jervis-operator"
    assert options.server_selection_timeout == 2.0
    assert [type(one) for one in options.event_listeners] == [memories.AtWire]


BUILT: dict[str, Callable[[settings.Settings], Any]] = {
    "limits": settings.Settings.limits,
    "terms": settings.Settings.terms,
    "pace": settings.Settings.pace,
    "periods": settings.Settings.periods,
    "mail_server": settings.Settings.mail_server,
    "outcome_pace": settings.Settings.outcome_pace,
    "notice_pace": settings.Settings.notice_pace,
    "template": settings.Settings.template,
}
FIXED = {("template", "priority"), ("notice_pace", "window"), ("outcome_pace", "window")}
"""The most urgent priority of a run, and the days in which an outcome is reported, are the same in every release;
`retention_days` only shortens the window of notices."""


@pytest.mark.parametrize("name", BUILT)
def test_no_field_of_what_is_built_from_settings_is_left_out(name: str) -> None:
    build = BUILT[name]
    made, usual = build(given()), build(settings.Settings(_env_file=None))
    for field in dataclasses.fields(made):
        if (name, field.name) in FIXED:
            continue
        assert getattr(made, field.name) != getattr(usual, field.name), f"{name}().{field.name} follows no setting"


def test_notices_are_kept_for_as_long_as_they_could_be_made_again() -> None:
    for days, hours in ((30, 24), (0.5, 12)):
        made = settings.Settings(_env_file=None, retention_days=days, archive_days=days).notice_pace()
        assert made.window == timedelta(hours=hours)


async def test_what_is_started_follows_the_settings(runtime: app.Runtime) -> None:
    starting = asyncio.create_task(runtime.start())
    async with asyncio.timeout(waiting.PATIENCE):
        while len(runtime._probes.addresses) + len(runtime._history.addresses) < 2:
            await asyncio.wait([starting], timeout=0.01)
    async with ClientSession() as http:
        for runner, path, status in ((runtime._probes, "/metrics", 200), (runtime._history, "/openapi.json", 200)):
            host, port = runner.addresses[0][:2]
            assert host == "127.0.0.1"
            async with http.get(f"http://{host}:{port}{path}") as answer:
                assert answer.status == status
    starting.cancel()
    runtime._start_workers()
    names = [one.get_name() for one in asyncio.all_tasks()]
    assert len([name for name in names if name.startswith("tasks ")]) == AT_THE_START["workers"]
    assert not {"outcomes", "notices", "reservation"} & {*names}


def test_main_follows_its_settings() -> None:
    """In a process of its own: it sets up the logs of the whole process."""
    code = """
import json, runpy, kopf, structlog
from controllers import namespaces, settings
main = runpy.run_path("operator/main.py")
config, options = settings.read(), kopf.OperatorSettings()
scope = namespaces.Scope.of(config.namespace, patterns=(), everywhere=True, labels=config.namespace_selector)
main["prepare"](config)
main["configure"](options, config, scope)
structlog.get_logger().info("hidden")
structlog.get_logger().warning("shown", silence=options.watching.inactivity_timeout, labels=scope.labels)
"""
    known = {"JERVIS_OPERATOR_WATCH_SILENCE_SECONDS": "100", "PYTHONPATH": str(ROOT)}
    known |= {f"JERVIS_OPERATOR_{name.upper()}": value for name, value in IN_MAIN.items()}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **known}, capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [(one["event"], one["silence"], one["labels"]) for one in lines] == [("shown", 90, "team=of-the-test")]


@pytest.mark.parametrize(
    ("advance", "phase"), [("0", Phase.SCHEDULED), ("300", Phase.SCHEDULED), ("301", Phase.READY_FOR_QUALIFICATION)]
)
def test_a_task_is_qualified_ahead_of_its_time_by_the_setting(
    monkeypatch: pytest.MonkeyPatch, advance: str, phase: Phase
) -> None:
    monkeypatch.setenv("JERVIS_OPERATOR_ADVANCE_SECONDS", advance)
    state = ObservedState(limits=settings.read().limits())
    planned = task(spec={"schedule": {"at": (NOW + timedelta(seconds=300.5)).isoformat()}})
    assert decide(planned, state, NOW).phase is phase
    due = task(spec={"schedule": {"at": NOW.isoformat()}})
    assert decide(due, state, NOW).phase is Phase.READY_FOR_QUALIFICATION, "at its time at the latest"
