"""Service accounts and Secrets of a real apiserver: who may enter, and what a backend is shown."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx
import pytest

import kube
from router import client
from tests import waiting
from tests.conftest import api_client
from tests.operator.conftest import Space
from tests.router import process, wire

pytestmark = pytest.mark.apiserver

_EMBED = {"model": "m", "input": "x"}
_REVIEWED = {"namespace": "default", "token_review": "true"}


def _account(core: Any, name: str, *audiences: str, namespace: str = "default") -> str:
    """A token of a service account, made if need be; for the apiserver when no audience is named."""
    from kubernetes import client

    names = [found.metadata.name for found in core.list_namespaced_service_account(namespace).items]
    if name not in names:
        core.create_namespaced_service_account(namespace, {"metadata": {"name": name}})
    spec = client.V1TokenRequestSpec(audiences=list(audiences), expiration_seconds=3600)
    request = client.AuthenticationV1TokenRequest(spec=spec)
    return str(core.create_namespaced_service_account_token(name, namespace, request).status.token)


@pytest.fixture(name="core")
def _core(kubeconfig: Path) -> Any:
    from kubernetes import client

    return client.CoreV1Api(api_client(kubeconfig))


async def test_service_accounts_are_let_in_and_others_are_not(tmp_path: Path, kubeconfig: Path, core: Any) -> None:
    friend, admin, stranger = (_account(core, name) for name in ("friend", "chief", "stranger"))
    async with process.before(
        tmp_path,
        wire.answering(),
        kubeconfig=str(kubeconfig),
        **_REVIEWED,
        allowed_accounts='["default/friend"]',
        admin_accounts='["default/chief"]',
    ) as (router, backend):

        async def ask(token: str, path: str = "/api/embed") -> int:
            headers = [*wire.bearer(token), ("X-Ollama-Router-Backend", "raw")]
            return (await router.post(path, _EMBED, headers)).status

        assert [await ask(friend), await ask(friend), await ask(admin)] == [200] * 3
        assert [await ask(stranger), await ask("a" * 40), await ask("a" * 40)] == [401] * 3
        assert [await ask(friend, "/api/pull"), await ask(admin, "/api/pull")] == [403, 200]
        assert len(backend.requests) == 4


async def test_without_a_list_the_release_s_own_are_let_in_and_tickets_of_the_history_never_are(
    tmp_path: Path, kubeconfig: Path, core: Any
) -> None:
    own, viewer = _account(core, "own", "jervis-router"), _account(core, "jervis-history", "jervis-router")
    tenant = "a-tenant-of-the-router"
    core.create_namespace({"metadata": {"name": tenant}})
    stranger = _account(core, "default", "jervis-router", namespace=tenant)
    others = _account(core, "jervis-history", "jervis-router", namespace=tenant)
    settings = {"kubeconfig": str(kubeconfig), "token_audiences": '["jervis-router"]', **_REVIEWED}
    everything = {
        "allowed_accounts": f'["default/*", "{tenant}/*", "{tenant}/jervis-history"]',
        "admin_accounts": f'["{tenant}/jervis-history"]',
    }
    try:
        for more, statuses in (({}, [200, 401, 401, 401]), (everything, [200, 401, 200, 401])):
            folder = tmp_path / str(len(more))
            folder.mkdir()
            async with process.before(folder, wire.answering(), **settings, **more) as (router, _):
                answers = [
                    await router.post("/api/embed", _EMBED, wire.bearer(token))
                    for token in (own, viewer, stranger, others)
                ]
                assert [answer.status for answer in answers] == statuses
    finally:
        core.delete_namespace(tenant)


async def test_a_token_is_for_the_router_alone_and_its_account_has_a_ceiling(
    tmp_path: Path, kubeconfig: Path, core: Any
) -> None:
    renewed = tmp_path / "token"
    settings = {"token_audiences": '["jervis-router"]', "account_ceilings": '{"default/batch": "P2"}', **_REVIEWED}
    async with (
        process.before(tmp_path, wire.answering(), kubeconfig=str(kubeconfig), **settings) as (router, _),
        httpx.AsyncClient(verify=False) as http,
    ):
        door = client.Client(router.url, http, token=client.token_file(str(renewed)))
        with pytest.raises(client.Unavailable, match="cannot be read"):
            await door.status()
        for token, good in ((_account(core, "batch"), False), (_account(core, "batch", "jervis-router"), True)):
            renewed.write_text(token)
            if good:
                assert (await door.status()).backends
            else:
                with pytest.raises(client.Rejected, match="401"):
                    await door.status()
        headers = [*wire.bearer(renewed.read_text()), ("X-Ollama-Priority", "0")]
        assert (await router.post("/api/embed", _EMBED, headers)).status == 200
        assert await router.metric('jervis_router_priority_clamped_total{asked="P0",given="P2"}') == 1


async def test_a_secret_becomes_the_backend_s_token_and_its_change_is_followed(
    tmp_path: Path, kubeconfig: Path, core: Any
) -> None:
    space, other = Space(core.api_client, "default", there=True), base64.b64encode(b"of another").decode()
    secret = {
        "metadata": {"name": "gpu-token"},
        "data": {"token": other, "bearer": base64.b64encode(b"first").decode()},
    }
    core.create_namespaced_secret("default", secret)
    try:
        async with wire.backend(wire.answering()) as backend:
            reference = {"name": "gpu-token", "key": "bearer"}
            space.create("gpubackends", "GpuBackend", "behind", {"url": backend.url, "secretRef": reference})
            try:
                async with process.running(
                    tmp_path, None, namespace="default", kubeconfig=str(kubeconfig), secrets_every_seconds="0.5"
                ) as router:

                    async def seen() -> str | None:
                        await router.post("/api/embed", _EMBED)
                        return backend.requests[-1].header("Authorization") if backend.requests else None

                    assert await waiting.eventually(seen, good=lambda value: value == "Bearer first")
                    secret["data"] = {"bearer": base64.b64encode(b"second").decode()}
                    core.patch_namespaced_secret("gpu-token", "default", secret)
                    assert await waiting.eventually(seen, good=lambda value: value == "Bearer second")
            finally:
                space.delete("behind", "gpubackends")
    finally:
        core.delete_namespaced_secret("gpu-token", "default")


async def test_an_apiserver_that_is_away_is_trouble_and_no_verdict(kubeconfig: Path) -> None:
    loaded = kube.configuration(str(kubeconfig))
    loaded.host = "https://127.0.0.1:1"
    async with kube.session(loaded) as http:
        api = kube.Kube(loaded, http, fence=lambda: None)
        with pytest.raises(kube.Unavailable):
            await api.review("token")
        with pytest.raises(kube.Unavailable):
            await api.get(kube.LEASES, "default", "router")
