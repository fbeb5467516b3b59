"""CoreDNS beside the pods, on their gateway's address."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from hack.cluster import configuration
from hack.cluster.layout import DOMAIN, POD_GATEWAY, Layout

_COREFILE = """
.:53 {{
    bind {address}
    errors
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig} jervis
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 5
    }}
    cache 5
    ready {node}:8181
}}
"""


def command(layout: Layout, program: Path, kubeconfig: Path) -> list[str | Path]:
    content = _COREFILE.format(address=POD_GATEWAY, domain=DOMAIN, kubeconfig=kubeconfig, node=layout.node)
    corefile = configuration.write(layout.directory / "Corefile", content)
    return [program, "-conf", corefile]


def query(name: str, server: tuple[str, int], seconds: float) -> str | None:
    """The first IPv4 address that `server` gives for `name`; None when there is none. Raises OSError on no answer."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.rstrip(".").split("."))
    question = labels + b"\0" + struct.pack(">HH", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(seconds)
        client.sendto(struct.pack(">HHHHHH", 0x4A56, 0x0100, 1, 0, 0, 0) + question, server)
        answer = client.recv(4096)
    if struct.unpack(">H", answer[6:8])[0] == 0:
        return None
    return ".".join(str(byte) for byte in answer[-4:])
