"""A certificate authority of one cluster and what it signs, made with the openssl program.

Everything is ECDSA P-256, valid for ten years, readable by its owner only. The files are made once per directory.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.cluster import configuration, errors

_DAYS = "3650"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM files."""

    certificate: Path
    key: Path


class Authority:
    """The authority in `directory` (ca.crt, ca.key), made if it is not there."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("openssl") is None:
            raise errors.Missing("openssl is missing: apt-get install openssl")
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.pair = self._pair("ca")
        if not self.pair.certificate.exists():
            self._key(self.pair.key)
            _openssl(
                *("req", "-x509", "-new", "-key", self.pair.key, "-days", _DAYS, "-subj", "/CN=jervis-local-ca"),
                *("-addext", "keyUsage=critical,keyCertSign,cRLSign", "-out", self.pair.certificate),
            )

    def issue(self, name: str, subject: str, hosts: Sequence[str] = ()) -> Pair:
        """A certificate `name`.crt for `subject` (such as "/CN=system:kube-scheduler"); with hosts it also serves."""
        pair = self._pair(name)
        extensions = self._directory / f"{name}.ext"
        usage = "serverAuth,clientAuth" if hosts else "clientAuth"
        wanted = f"keyUsage=critical,digitalSignature\nextendedKeyUsage={usage}\n"
        if hosts:
            alternatives = ",".join(f"{'IP' if _is_address(host) else 'DNS'}:{host}" for host in hosts)
            wanted += f"subjectAltName={alternatives}\n"
        if pair.certificate.exists() and extensions.exists() and extensions.read_text() == wanted:
            return pair
        extensions.write_text(wanted)
        request = self._directory / f"{name}.csr"
        self._key(pair.key)
        _openssl("req", "-new", "-key", pair.key, "-subj", subject, "-out", request)
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.pair.certificate, "-CAkey", self.pair.key, "-CAcreateserial"),
            *("-days", _DAYS, "-extfile", extensions, "-out", pair.certificate),
        )
        request.unlink()
        return pair

    def signing_key(self, name: str) -> Path:
        """A bare key, for service account tokens."""
        key = self._pair(name).key
        if not key.exists():
            self._key(key)
        return key

    def kubeconfig(self, path: Path, server: str, user: Pair) -> Path:
        """Write a kubeconfig (JSON is YAML) with everything embedded by path."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "jervis",
            "clusters": [
                {"name": "jervis", "cluster": {"server": server, "certificate-authority": str(self.pair.certificate)}}
            ],
            "contexts": [{"name": "jervis", "context": {"cluster": "jervis", "user": "jervis"}}],
            "users": [
                {"name": "jervis", "user": {"client-certificate": str(user.certificate), "client-key": str(user.key)}}
            ],
        }
        return configuration.write(path, json.dumps(content, indent=2) + "\n")

    def _pair(self, name: str) -> Pair:
        return Pair(self._directory / f"{name}.crt", self._directory / f"{name}.key")

    def _key(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)


def _is_address(host: str) -> bool:
    return host.replace(".", "").isdigit()


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise errors.Failure(f"openssl {arguments[0]} failed: {done.stderr.strip()}")
