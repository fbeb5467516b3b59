"""The images of the Dockerfile: built by buildah, then put into the local cluster's containerd."""

from __future__ import annotations

import os
import tomllib
from typing import Any

from hack.cluster import containerd, errors, layout, process, progress
from hack.image import debian, load, sources
from hack.image.store import Store

IMAGES = {
    "jervis": "localhost/jervis:dev", "fakes": "localhost/jervis-fakes:dev",
    "transcription": "localhost/jervis-transcription:dev", "joern": "localhost/jervis-joern:dev",
}  # fmt: skip
"""Target of the Dockerfile: name."""
CLUSTER = ("jervis", "fakes")
"""Those that the local cluster runs."""
SECONDS = {"jervis": 50.0, "fakes": 60.0, "transcription": 60.0, "joern": 120.0}
"""What each takes to build for the first time, after those before it."""


def build(
    store: Store, targets: list[str], report: progress.Progress, named_base: str | None = None, revision: str = ""
) -> None:
    """Build them on `named_base`, else on a bootstrapped Debian. Raises errors.Failure when buildah fails.

    A base that is named with its digest (NAME@sha256:...) is that one and no other; which one it was is written to the
    labels in any case. `revision` is the commit that they are built from, for their labels; a checkout that may be
    changed has none.
    """
    with store.exclusive(), sources.arguments(os.environ) as package_sources:
        # Work containers of a killed build; ours alone, as we hold the store's lock.
        store.buildah("rm", "--all", quiet=True)
        base = named_base or debian.ensure(store, report)
        if named_base:
            # A tag as it is now: the build itself takes what is here. A digest is the same image everywhere.
            policy = "missing" if "@" in named_base else "always"
            store.buildah("pull", "--policy", policy, "-q", named_base)
        known = labels(revision, base, base.partition("@")[2] or store.digest(base))
        for target in targets:
            with report.step(f"building {IMAGES[target]}", 0 if store.has(IMAGES[target]) else SECONDS[target]):
                store.logged(
                    f"image-{target}",
                    *("build", "-q", "--pull-never", "--isolation", "chroot", "--layers"),
                    *("--format", "oci", "--target", target),
                    *("--build-arg", f"BASE={base}", *known, *package_sources),
                    *("-t", IMAGES[target], "-f", layout.CHECKOUT / "Dockerfile", layout.CHECKOUT),
                )
        # What earlier builds left without a name; layers that the next build can reuse have children and stay.
        store.buildah("rmi", "--prune", quiet=True)


def labels(revision: str, base: str, digest: str) -> list[str]:
    """Arguments for the labels that the Dockerfile cannot know (opencontainers/image-spec, annotations.md)."""
    known = {"version": project()["version"], "base.name": base.partition("@")[0], "base.digest": digest}
    known |= {"revision": revision} if revision else {}
    return [word for name, value in known.items() for word in ("--label", f"org.opencontainers.image.{name}={value}")]


def project() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((layout.CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def put(store: Store, targets: list[str], place: layout.Layout, report: progress.Progress) -> None:
    """Load them into the local cluster. Raises errors.Failure when that is down."""
    if process.Daemon("containerd", place.daemons).identity() is None or not containerd.ready(place):
        raise errors.Failure("the images are built, but the local cluster is down: make cluster-up, then repeat")
    with store.exclusive():
        for target in targets:
            with report.step(f"loading {IMAGES[target]}"):
                moved = load.load(store, IMAGES[target], place)
            report.say(f"{IMAGES[target]}: {moved / 1e6:.1f} MB moved")
        containerd.drop_unnamed_images(place)


def advice(kubeconfig: str) -> str:
    """How to build the images for the cluster of `kubeconfig`, which is not ours."""
    names = " ".join(IMAGES[target] for target in CLUSTER)
    return (
        f"KUBECONFIG={kubeconfig} is your own cluster, so build and hand over the image with its tools, then set "
        f"IMAGE: docker build --target jervis -t {IMAGES['jervis']} . && "
        f"docker build --target fakes -t {IMAGES['fakes']} . && "
        f"(kind load docker-image {names} | k3d image import {names} | docker push ...)"
    )
