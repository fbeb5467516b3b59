"""`python -m hack.image`: build the project images and put them into the local cluster. See --help."""

from __future__ import annotations

import argparse
import os
import sys

from hack.cluster import errors, external, layout, prerequisites, progress
from hack.image import build
from hack.image.store import Store


def main(arguments: list[str]) -> int:
    """Exit status: 0 the images are where they are needed, 1 not (one line on stderr says why)."""
    parser = argparse.ArgumentParser(prog="python -m hack.image", description=__doc__)
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help=f"{' or '.join(build.IMAGES)}; default: {' and '.join(build.CLUSTER)}",
    )
    parser.add_argument(
        "--base",
        metavar="NAME[@sha256:DIGEST]",
        help="build on this image instead of a bootstrapped Debian (buildah must be able to pull it)",
    )
    parser.add_argument("--revision", default="", help="the commit that is built, for the label of the image")
    parser.add_argument("--build-only", action="store_true", help="do not load the images into the local cluster")
    parsed = parser.parse_args(arguments)
    report = progress.Progress()
    try:
        named = os.environ.get("IMAGE")
        if named:
            report.say(f"IMAGE={named} is used as it is; nothing is built")
            return 0
        unknown = set(parsed.targets) - set(build.IMAGES)
        if unknown:
            raise errors.Failure(f"there is no target {unknown.pop()!r}; there are {', '.join(build.IMAGES)}")
        _make(parsed.targets or list(build.CLUSTER), parsed, report)
    except errors.Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return 0


def _make(targets: list[str], parsed: argparse.Namespace, report: progress.Progress) -> None:
    place = layout.from_environment()
    config = external.kubeconfig(place, os.environ)
    if config is not None:
        raise errors.Failure(build.advice(config))
    prerequisites.ensure(prerequisites.IMAGE, report)
    store = Store.of_user()
    build.build(store, targets, report, parsed.base, parsed.revision)
    if not parsed.build_only:
        build.put(store, targets, place, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
