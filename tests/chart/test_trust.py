"""`caBundle`: each process and each run trusts its authorities, proven by TLS servers with certificates of one."""

from __future__ import annotations

import json
import os
import socketserver
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controllers.pendingtask import job
from hack.cluster import certificates
from tests import waiting
from tests.chart import rendering, trusted
from tests.chart.rendering import Chart, Manifest
from tests.controllers import build

ROOT = Path(__file__).resolve().parents[2]
MOUNT = "/etc/jervis/ca-bundle"
PODS = ("operator", "router", "kb")


@dataclass
class Seen:
    """Clients by name: those that accepted the certificate, and those that broke a handshake off, as often as they
    did."""

    ports: dict[str, int] = field(default_factory=dict)
    accepted: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)

    def refused_again(self) -> set[str]:
        """Those that came again and refused it again: no other way follows on the first one."""
        return {name for name in self.ports if self.refused.count(name) > 1}


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, name: str, context: ssl.SSLContext, seen: Seen) -> None:
        super().__init__(("127.0.0.1", 0), _Handshake)
        self.name, self.context, self.seen = name, context, seen


class _Handshake(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        self.request.settimeout(waiting.PATIENCE)
        # At its end the client has judged: in TLS 1.3, too, it refuses before its own last message.
        try:
            with self.server.context.wrap_socket(self.request, server_side=True):
                self.server.seen.accepted.add(self.server.name)
        except TimeoutError:
            return  # it has not judged
        except OSError:
            self.server.seen.refused.append(self.server.name)


@contextmanager
def servers(pair: certificates.Pair) -> Iterator[Seen]:
    """One TLS server for each client, which closes after the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    seen = Seen()
    with ExitStack() as stack:
        for name in trusted.CLIENTS:
            server = stack.enter_context(_Server(name, context, seen))
            seen.ports[name] = server.server_address[1]
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            stack.callback(server.shutdown)
        yield seen


def ask(pair: certificates.Pair, variables: dict[str, str], judged: Callable[[Seen], set[str]]) -> Seen:
    """What the servers see of all clients in one process with these variables, once `judged` names all of them."""
    with servers(pair) as seen:
        names = {*variables, "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
        env = {key: value for key, value in os.environ.items() if key not in names} | variables
        command = [sys.executable, "-m", "tests.chart.trusted", json.dumps(seen.ports)]
        with subprocess.Popen(command, cwd=ROOT, env={**env, "PYTHONPATH": str(ROOT)}) as process:

            def missing() -> set[str]:
                names = {*trusted.CLIENTS} - judged(seen)
                assert not names or process.poll() is None, "it asks until it is killed"
                return names

            try:
                waiting.until(missing, "every client has judged", good=lambda left: not left)
            finally:
                process.kill()
    return seen


def bundle_variables(pod: Manifest) -> set[str]:
    """Names of the variables of a pod that lead to the bundle."""
    found = rendering.environment(pod).values()
    return {entry["name"] for entry in found if entry.get("value") == f"{MOUNT}/ca.crt"}


@pytest.fixture(scope="module")
def bundled(chart: Chart) -> list[Manifest]:
    return chart.render("--set", "caBundle.name=authorities,caBundle.kind=Secret,caBundle.key=root.pem")


@pytest.fixture(scope="module")
def seen(bundled: list[Manifest], tmp_path_factory: pytest.TempPathFactory) -> tuple[Seen, Seen]:
    """With the variables that the chart sets, and without."""
    authority = certificates.Authority(tmp_path_factory.mktemp("authority"))
    pair = authority.issue("server", "/CN=localhost", ("localhost", "127.0.0.1"))
    operator = rendering.process(bundled, "operator")
    bundle = str(authority.pair.certificate)
    given = dict.fromkeys(bundle_variables(operator), bundle)
    with ThreadPoolExecutor(1) as side:
        without = side.submit(ask, pair, {}, Seen.refused_again)
        return ask(pair, given, lambda seen: seen.accepted), without.result()


@pytest.mark.parametrize("client", trusted.CLIENTS)
def test_a_client_trusts_the_bundle_and_none_without_it(seen: tuple[Seen, Seen], client: str) -> None:
    with_bundle, without = seen
    assert client in with_bundle.accepted
    assert client in without.refused_again()
    assert client not in without.accepted


def test_every_process_and_every_run_has_the_bundle(bundled: list[Manifest], monkeypatch: pytest.MonkeyPatch) -> None:
    template = rendering.operator_settings(bundled, monkeypatch).template()
    run = job.manifest(build.task(), 1, "run", template)["spec"]["template"]
    for pod in (*(rendering.process(bundled, name) for name in PODS), run):
        assert bundle_variables(pod) == {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"}
        volume = next(one for one in pod["spec"]["volumes"] if one["name"] == "ca-bundle")
        items = [{"key": "root.pem", "path": "ca.crt"}]
        assert volume["secret"] == {"secretName": "authorities", "items": items}
        mounts = pod["spec"]["containers"][0]["volumeMounts"]
        assert {"name": "ca-bundle", "mountPath": MOUNT, "readOnly": True} in mounts


def test_a_bundle_may_be_a_config_map_and_is_none_by_default(chart: Chart) -> None:
    rendered = chart.render("--set", "caBundle.name=authorities")
    pod = rendering.process(rendered, "router")
    volume = next(one for one in pod["spec"]["volumes"] if one["name"] == "ca-bundle")
    assert volume["configMap"] == {"name": "authorities", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    for _, pod in rendering.pods(chart.render()):
        assert "ca-bundle" not in json.dumps(pod)
