"""`python -m hack.demo.prepare`: all that `make demo` needs before Jervis is installed, made beside each other.

It runs in the system's Python, as the project's environment is one of the things it makes. With a KUBECONFIG of the
user's own nothing but that environment is made, and the images are the user's to bring.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

from hack import gitea, ollama, whisper
from hack.cluster import binaries, errors, external, layout, lifecycle, ownership, prerequisites, progress
from hack.cluster import steps as planned
from hack.demo import errors as demo_errors
from hack.demo import settings
from hack.image import build, debian
from hack.image.store import Store
from hack.models import catalogue, store

_PACKAGES = prerequisites.CLUSTER | prerequisites.IMAGE | prerequisites.SOURCES
_JAVA = ("mongodb", "tika")  # Java and Maven come as Debian packages
_ENVIRONMENT = ".venv/.ready"
_RUNTIME_SECONDS, _START_SECONDS, _LOAD_SECONDS, _SHOW_SECONDS = 2.0, 10.0, 35.0, 60.0
_MODELS_SECONDS, _WHISPER_SECONDS, _SMALL_SHOW_SECONDS = 40.0, 20.0, 1200.0
_INDEX = "the Python package index"


def main() -> int:
    """Exit status: 0 the demonstration can be installed, 1 not (one line on stderr says why)."""
    report = progress.Progress()
    try:
        place = layout.from_environment()
        settings.read(os.environ)  # before minutes of building: what is wrong with the variables
        config = external.kubeconfig(place, os.environ)
        if config is not None:
            print(external.check(config))
            if not os.environ.get("IMAGE"):
                raise errors.Failure(build.advice(config))
            planned.run([_environment(report)])
            return 0
        absent = prerequisites.installable(_packages(os.environ))
        steps = local(place, os.environ, report)
        print(announcement(steps, absent, small=bool(os.environ.get("MODEL"))), file=sys.stderr, flush=True)
        planned.run(steps)
    except (errors.Failure, demo_errors.Failure) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return 0


def local(place: layout.Layout, environment: Mapping[str, str], report: progress.Progress) -> list[planned.Step]:
    """The steps to a local cluster with the images in it."""
    wanted = _packages(environment)
    packages = planned.Step(
        "Debian packages",
        lambda: prerequisites.ensure(wanted, report),
        prerequisites.SECONDS if prerequisites.missing(wanted) else 0,
    )
    builds = [
        planned.Step(one.name, one.run, one.seconds, (packages.name,) if one.name in _JAVA else ())
        for one in lifecycle.builds(place, report)
    ]
    cluster = planned.Step(
        "cluster", lambda: lifecycle.up(place, report), _START_SECONDS, (packages.name, *(one.name for one in builds))
    )
    forge = planned.Step("gitea", lambda: gitea.directory(report), gitea.pending_seconds(), (packages.name,))
    steps = [packages, *builds, forge, cluster, _environment(report)]
    if shutil.which("helm") is None:
        helm = binaries.HELM
        steps.append(planned.Step("helm", lambda: binaries.directory(helm, report), helm.pending_seconds()))
    if environment.get("MODEL"):
        steps += _models(report)
    if not environment.get("IMAGE"):
        # With containerd alone the images are loaded while the rest of the cluster is still being built. Another
        # checkout's cluster is stopped for it: that waits until nothing can fail to be built.
        needs = (packages.name,) if ownership.predecessor(place) is None else cluster.needs
        runtime = planned.Step("runtime", lambda: lifecycle.runtime(place, report), _RUNTIME_SECONDS, needs)
        if environment.get("MODEL"):
            targets = ["jervis", "transcription"]
        else:
            targets = ["jervis"] if environment.get("OLLAMA_URL") else list(build.CLUSTER)
        steps += [runtime, *_images(place, targets, report)]
    return steps


def announcement(steps: list[planned.Step], packages: list[str], *, small: bool = False) -> str:
    """What `make demo` is about to do and how long that takes, for the terminal. `packages` will be installed; `small`
    is MODEL=small."""
    pending = [step for step in steps if step.seconds and step.name not in ("runtime", "cluster", "load")]
    seconds = planned.total(steps) + (_SMALL_SHOW_SECONDS if small else _SHOW_SECONDS)
    lines = [f"make demo: a Kubernetes on this machine with Jervis in it, in about {_minutes(seconds)} on two cores."]
    if pending:
        lines.append(f"Built or fetched first, and kept in {binaries.cache()}, beside each other:")
        lines += [f"  {step.name:<20} {_minutes(step.seconds)}" for step in pending]
    if packages:
        lines.append(f"Installed as root by apt-get: {' '.join(packages)}")
    return "\n".join([*lines, "Then the cluster starts, the chart is installed, and tasks run.", ""])


def _packages(environment: Mapping[str, str]) -> dict[str, str]:
    return _PACKAGES | ((prerequisites.CPP | prerequisites.SPEECH) if environment.get("MODEL") else {})


def _images(place: layout.Layout, targets: list[str], report: progress.Progress) -> list[planned.Step]:
    store = Store.of_user()
    known = shutil.which("buildah") is not None
    seconds = sum(build.SECONDS[one] for one in targets if not (known and store.has(build.IMAGES[one])))
    if not (known and store.has(debian.NAME)):
        seconds += debian.SECONDS
    return [
        planned.Step("images", lambda: build.build(store, targets, report), seconds, ("Debian packages",)),
        planned.Step("load", lambda: build.put(store, targets, place, report), _LOAD_SECONDS, ("images", "runtime")),
    ]


def _models(report: progress.Progress) -> list[planned.Step]:
    """Ollama, the models that it makes of packages which the environment's pip fetches, and a Whisper."""
    python = ".venv/bin/python"
    return [
        planned.Step("ollama", lambda: ollama.program(report), ollama.pending_seconds(), ("Debian packages",)),
        planned.Step(
            "models",
            lambda: binaries.logged("models", python, "-m", "hack.models", cwd=layout.CHECKOUT, reach=_INDEX),
            _MODELS_SECONDS if store.missing(catalogue.SMALL) else 0,
            ("ollama", "Python environment"),
        ),
        planned.Step(
            "whisper",
            lambda: binaries.logged("whisper", python, "-m", "hack.whisper", cwd=layout.CHECKOUT, reach=_INDEX),
            0 if whisper.place().exists() else _WHISPER_SECONDS,
            ("Python environment",),
        ),
    ]


def _environment(report: progress.Progress) -> planned.Step:
    """`.venv`, by the Makefile's own recipe."""
    made = subprocess.run(["make", "-q", _ENVIRONMENT], cwd=layout.CHECKOUT, capture_output=True).returncode == 0
    seconds = 0.0 if made else 30.0

    def make() -> None:
        if not made:
            with report.step("making the Python environment", seconds):
                binaries.logged("venv", "make", _ENVIRONMENT, cwd=layout.CHECKOUT, reach=_INDEX)

    return planned.Step("Python environment", make, seconds)


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds / 60))} min" if seconds >= 45 else f"{seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
