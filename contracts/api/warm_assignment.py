"""How a run's pod that was started in advance gets its task: it asks the operator, with a token of its own.

    GET {PATH}?wait=SECONDS    Authorization: Bearer TOKEN
    200           {"environment": {"JERVIS_TASK_UID": ..., ...}, "token": "..."}: what a Job made for the task has
    204           the Job has no task yet: ask again

The token is one of the pod's ServiceAccount for `AUDIENCE`, bound to the pod by the kubelet: it opens nothing else, and
ends with the pod. An answer is for the pod that asks and its Job alone.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

AUDIENCE = "runs.jervis.dev"
PATH = "/api/v1/handover"
WAIT_SECONDS = 25.0
"""How long a request waits for a task before it is answered with 204, unless it asks for less."""


class Given(BaseModel):
    """What a run has that no other run has. `token` is its own for the services it calls; "" where they want none."""

    model_config = ConfigDict(frozen=True)

    environment: dict[str, str]
    token: str = ""
