"""The endpoints of a Service, for want of controllers: the apiserver's proxy leads nowhere without them.

It reads Endpoints up to 1.32 or so and EndpointSlices since; both are made. Source: Kubernetes API, `discovery/v1`.
"""

from __future__ import annotations

from typing import Any

from kubernetes import client


def make(core: Any, namespace: str, service: str, address: str, pod: str, ports: list[dict[str, Any]]) -> None:
    """Lead `ports` (name, port, protocol) of a Service to `address`, which is that of `pod`."""
    target = {"kind": "Pod", "name": pod, "namespace": namespace}
    subset = {"addresses": [{"ip": address, "targetRef": target}], "ports": ports}
    core.create_namespaced_endpoints(namespace, {"metadata": {"name": service}, "subsets": [subset]})
    slices: Any = client.DiscoveryV1Api(core.api_client)
    slices.create_namespaced_endpoint_slice(
        namespace,
        {
            "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}, "targetRef": target}],
            "ports": ports,
        },
    )


def remove(core: Any, namespace: str, service: str) -> None:
    """Leave the Service without any."""
    core.delete_namespaced_endpoints(service, namespace)
    slices: Any = client.DiscoveryV1Api(core.api_client)
    slices.delete_namespaced_endpoint_slice(service, namespace)
