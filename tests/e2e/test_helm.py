"""`helm test`: every process of the release says that it is ready, asked from a pod as restricted as the others."""

from __future__ import annotations

import subprocess

from hack.cluster import progress
from hack.demo import kubectl, settings
from tests.e2e.site import Site


def test_passes(site: Site) -> None:
    done = subprocess.run(
        [kubectl.helm(progress.Progress()), "test", settings.RELEASE, "--namespace", site.kubectl.namespace, "--logs"],
        env=site.kubectl.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Phase:          Succeeded" in done.stdout
