"""etcd and kube-apiserver for this suite: objects stored as JSON, our CRDs served, either process restartable."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import yaml

from hack.cluster import standalone
from tests.conftest import ROOT, api_client, wait_established


@contextlib.contextmanager
def running(directory: Path) -> Iterator[standalone.Server]:
    """Both, until the end of the block."""
    from kubernetes import client

    # Nothing is forgotten: the record reads on where an outage has broken it off, however long that took.
    extra = ("--storage-media-type=application/json", "--etcd-compaction-interval=0")
    with standalone.apiserver(directory, extra=extra) as server:
        api = api_client(server.kubeconfig)
        crds = client.ApiextensionsV1Api(api)
        for path in sorted((ROOT / "crds").glob("*.yaml")):
            crds.create_custom_resource_definition(yaml.safe_load(path.read_text()))
        wait_established(crds)
        api.close()
        yield server
