"""kube-apiserver: its certificates, its command line, its readiness."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.cluster import certificates


@dataclass(frozen=True)
class Endpoint:
    """Where it listens and what Services it serves."""

    address: str
    port: int
    service_range: str  # CIDR of ClusterIPs; its first address is the Service `kubernetes`
    service_address: str

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"


@dataclass(frozen=True)
class Files:
    """What the authority issued for one apiserver."""

    authority: certificates.Authority
    serving: certificates.Pair
    admin: certificates.Pair
    accounts: Path  # key that signs service account tokens

    @classmethod
    def issue(cls, authority: certificates.Authority, endpoint: Endpoint) -> Files:
        names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
        hosts = (*names, "localhost", "127.0.0.1", endpoint.service_address, endpoint.address)
        return cls(
            authority,
            authority.issue("apiserver", "/CN=kube-apiserver", tuple(dict.fromkeys(hosts))),
            authority.issue("admin", "/O=system:masters/CN=admin"),
            authority.signing_key("service-accounts"),
        )


def command(program: Path, endpoint: Endpoint, files: Files, etcd: str, extra: Sequence[str] = ()) -> list[str | Path]:
    """The command line: all default admission plugins (so ValidatingAdmissionPolicy too), RBAC, no anonymous access."""
    return [
        program,
        f"--bind-address={endpoint.address}",
        f"--advertise-address={endpoint.address}",
        f"--secure-port={endpoint.port}",
        f"--etcd-servers={etcd}",
        f"--service-cluster-ip-range={endpoint.service_range}",
        f"--tls-cert-file={files.serving.certificate}",
        f"--tls-private-key-file={files.serving.key}",
        f"--client-ca-file={files.authority.pair.certificate}",
        f"--service-account-key-file={files.accounts}",
        f"--service-account-signing-key-file={files.accounts}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--cert-dir={files.serving.key.parent}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--anonymous-auth=false",
        "--profiling=false",
        "--allow-privileged=true",
        *extra,
    ]


def ready(endpoint: Endpoint, files: Files) -> bool:
    """True when /readyz answers 200 to the administrator."""
    context = ssl.create_default_context(cafile=files.authority.pair.certificate)
    context.load_cert_chain(files.admin.certificate, files.admin.key)
    connection = http.client.HTTPSConnection(endpoint.address, endpoint.port, timeout=5, context=context)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):  # not listening yet
        return False
    finally:
        connection.close()
