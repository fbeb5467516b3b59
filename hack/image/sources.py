"""How this machine reaches packages, handed to a build as secrets: used while packages are fetched, never stored."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

_CA_INSIDE = "/run/secrets/ca"
_WHEELS_INSIDE = "/run/wheels"
_JAVA_CERTIFICATES = Path("/etc/ssl/certs/java/cacerts")
"""The store of certificates that Debian's Java reads (package ca-certificates-java)."""
_BUNDLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PASSED = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_DEFAULT_TIMEOUT",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "JERVIS_DEBIAN_MIRROR",
)
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@contextlib.contextmanager
def arguments(environment: Mapping[str, str]) -> Iterator[list[str]]:
    """`buildah build` arguments that make the host's package settings known to RUN steps."""
    inside = {name: environment[name] for name in (*_PASSED, *_PROXIES) if environment.get(name)}
    options: list[str] = []
    maven = Path(environment.get("HOME") or "/") / ".m2/settings.xml"
    if maven.is_file():
        options.append(f"--secret=id=maven,src={maven}")
    bundle = next((environment[name] for name in _BUNDLES if environment.get(name)), None)
    if bundle and Path(bundle).is_file():
        options.append(f"--secret=id=ca,src={bundle}")
        inside |= dict.fromkeys(_BUNDLES, _CA_INSIDE)
        if _JAVA_CERTIFICATES.is_file():
            options.append(f"--secret=id=cacerts,src={_JAVA_CERTIFICATES}")
    if environment.get("PIP_INDEX_URL"):
        inside.setdefault("UV_DEFAULT_INDEX", environment["PIP_INDEX_URL"])
    wheels = [Path(place) for place in environment.get("PIP_FIND_LINKS", "").split() if Path(place).is_dir()]
    wheels = [place for place in wheels if any(place.iterdir())]
    for number, place in enumerate(wheels):
        options.append(f"--volume={place}:{_WHEELS_INSIDE}/{number}:ro")
    if wheels:
        links = [f"{_WHEELS_INSIDE}/{number}" for number in range(len(wheels))]
        inside |= {"PIP_FIND_LINKS": " ".join(links), "UV_FIND_LINKS": ",".join(links)}
    with tempfile.TemporaryDirectory() as directory:
        secret = Path(directory) / "packages"
        secret.touch(mode=0o600)
        secret.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in sorted(inside.items())))
        os.chmod(directory, 0o700)
        yield [*options, f"--secret=id=packages,src={secret}"]
