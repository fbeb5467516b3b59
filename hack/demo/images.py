"""The images that run, and a fingerprint that changes when a local one was built anew under its old name."""

from __future__ import annotations

import hashlib
import subprocess

from hack.cluster import layout
from hack.demo import errors, settings

LOCAL = "localhost/jervis:dev"
LOCAL_FAKES = "localhost/jervis-fakes:dev"


def split(image: str) -> dict[str, str]:
    """An image's name as the chart's values: repository and tag, or repository and digest."""
    repository, _, digest = image.partition("@")
    if digest:
        return {"repository": repository, "tag": "", "digest": digest}
    head, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:  # the colon of a registry's port
        return {"repository": image, "tag": "latest", "digest": ""}
    return {"repository": head, "tag": tag, "digest": ""}


def chosen(wanted: settings.Settings) -> tuple[str, str]:
    """Jervis's image and the simulators'. Raises errors.Failure when none is named for your cluster."""
    if not wanted.local and not wanted.image:
        raise errors.Failure(
            "IMAGE is not set: KUBECONFIG names a cluster of yours, which cannot see images of this machine;"
            " push or load the image there (`make image` says how) and give its name as IMAGE=..."
        )
    if not wanted.local and wanted.simulated and not wanted.fakes_image:
        raise errors.Failure(
            "FAKES_IMAGE is not set: name the simulators' image as well, or a real Ollama as OLLAMA_URL=http://..."
        )
    return wanted.image or LOCAL, wanted.fakes_image or LOCAL_FAKES


def fingerprint(wanted: settings.Settings) -> str:
    """Twelve hex digits over the digests of the local images; "" for images of a registry, whose name tells enough.

    Raises errors.Failure when a local image is missing.
    """
    if not wanted.local:
        return ""
    jervis, fakes = chosen(wanted)
    needed = [jervis, fakes] if wanted.simulated else [jervis]
    digests = [_digest(image) for image in needed]
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()[:12]


def _digest(image: str) -> str:
    socket = layout.from_environment().containerd_socket
    listed = subprocess.run(
        ["ctr", "--address", str(socket), "--namespace", "k8s.io", "images", "list", f"name=={image}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        raise errors.Failure(f"containerd does not answer: {listed.stderr.strip()}; run `make cluster-up`")
    rows = [line.split() for line in listed.stdout.splitlines()[1:]]
    if not rows:
        raise errors.Failure(f"the image {image} is not in the local cluster: run `make image`")
    return rows[0][2]
