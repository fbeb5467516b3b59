"""`python -m hack.image`: build the project images and put them into the local cluster. See --help."""

from __future__ import annotations

import argparse
import os
import sys

from hack.cluster import containerd, errors, external, layout, prerequisites, process, progress
from hack.image import debian, load, sources
from hack.image.store import Store

IMAGES = {"jervis": "localhost/jervis:dev", "fakes": "localhost/jervis-fakes:dev"}  # target of the Dockerfile: name


def main(arguments: list[str]) -> int:
    """Exit status: 0 the images are where they are needed, 1 not (one line on stderr says why)."""
    parser = argparse.ArgumentParser(prog="python -m hack.image", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{' or '.join(IMAGES)}; default: both")
    parser.add_argument(
        "--base", help="build on this image instead of a bootstrapped Debian (buildah must be able to pull it)"
    )
    parser.add_argument("--build-only", action="store_true", help="do not load the images into the local cluster")
    parsed = parser.parse_args(arguments)
    report = progress.Progress()
    try:
        named = os.environ.get("IMAGE")
        if named:
            report.say(f"IMAGE={named} is used as it is; nothing is built")
            return 0
        unknown = set(parsed.targets) - set(IMAGES)
        if unknown:
            raise errors.Failure(f"there is no target {unknown.pop()!r}; there are {', '.join(IMAGES)}")
        _make(parsed.targets or list(IMAGES), parsed.base, parsed.build_only, report)
    except errors.Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return 0


def _make(targets: list[str], named_base: str | None, build_only: bool, report: progress.Progress) -> None:
    place = layout.from_environment()
    config = external.kubeconfig(place, os.environ)
    if config is not None:
        raise errors.Failure(_advice(config))
    prerequisites.ensure(prerequisites.IMAGE, report)
    store = Store.of_user()
    with store.exclusive():
        _build(store, targets, named_base, report)
        if build_only:
            return
        if process.Daemon("containerd", place.daemons).identity() is None or not containerd.ready(place):
            raise errors.Failure("the images are built, but the local cluster is down: make cluster-up, then repeat")
        for target in targets:
            with report.step(f"loading {IMAGES[target]}"):
                moved = load.load(store, IMAGES[target], place)
            report.say(f"{IMAGES[target]}: {moved / 1e6:.1f} MB moved")
        containerd.drop_unnamed_images(place)


def _build(store: Store, targets: list[str], named_base: str | None, report: progress.Progress) -> None:
    store.buildah(
        "rm", "--all", quiet=True
    )  # work containers of a killed build; ours alone, as we hold the store's lock
    base_name = named_base or debian.ensure(store, report)
    with sources.arguments(os.environ) as package_sources:
        for target in targets:
            with report.step(f"building {IMAGES[target]}"):
                store.buildah(
                    *("build", "-q", "--isolation", "chroot", "--layers", "--format", "oci", "--target", target),
                    *("--build-arg", f"BASE={base_name}", *package_sources),
                    *("-t", IMAGES[target], "-f", layout.CHECKOUT / "Dockerfile", layout.CHECKOUT),
                )
    # What earlier builds left without a name; layers that the next build can reuse have children and stay.
    store.buildah("rmi", "--prune", quiet=True)


def _advice(config: str) -> str:
    names = " ".join(IMAGES.values())
    return (
        f"KUBECONFIG={config} is your own cluster, so build and hand over the image with its tools, then set IMAGE: "
        f"docker build --target jervis -t {IMAGES['jervis']} . && "
        f"docker build --target fakes -t {IMAGES['fakes']} . && "
        f"(kind load docker-image {names} | k3d image import {names} | docker push ...)"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
