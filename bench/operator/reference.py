"""The reference: kopf's plain high-level handler on the same objects, as its tutorial has it. `kopf run` starts it."""

from __future__ import annotations

from typing import Any

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Only what keeps the comparison fair: no Events, which ours posts beside the work."""
    settings.posting.enabled = False


@kopf.on.create("jervis.dev", "v1alpha1", "pendingtasks")
async def created(**_: Any) -> None:
    """Do nothing; what is measured is what it costs to know that it was done."""
