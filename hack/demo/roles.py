"""Has the real Ollama the models of the roles? Asked before the chart is installed, not by a task that ends badly."""

from __future__ import annotations

from cli import errors as cli_errors
from cli import ollama
from cli.views import models as view
from crds import errors as crds_errors
from crds import modelcheck, modelroles
from hack.cluster import progress
from hack.demo import errors, small
from hack.demo.settings import Settings

_NEEDED = ("orchestrator", "qualifier", "embedding")
"""Without the model of one of them no task of the demonstration ends well."""
_SECONDS = 10.0


def check(wanted: Settings, report: progress.Progress) -> None:
    """Say what is missing. Raises errors.Failure where that leaves nothing to show."""
    if wanted.simulated:
        return
    roles = modelroles.assigned(small.values()["models"] if wanted.small else wanted.models)
    try:
        server = ollama.ask(wanted.ollama_url, (one.model for one in roles), _SECONDS)
    except cli_errors.Unavailable as error:
        if wanted.local:
            raise errors.Failure(f"{error.message} Start it, or correct OLLAMA_URL") from error
        report.say(f"models are not checked: {error.message} Pods may reach it all the same")
        return
    except crds_errors.JervisError as error:
        raise errors.Failure(f"OLLAMA_URL={wanted.ollama_url}: {error.message}") from error
    found = modelcheck.check(roles, [server], whole=False)
    lines = view.sentences(found)
    missing = [one.role for one in found.roles if one.verdict is modelcheck.Verdict.STOPS and one.role in _NEEDED]
    if missing:
        raise errors.Failure(
            "\n  ".join(
                [
                    f"{wanted.ollama_url} lacks models without which nothing can be shown ({', '.join(missing)});"
                    " OLLAMA_MODEL names one for all chat roles, OLLAMA_EMBEDDING that of embeddings:",
                    *lines,
                ]
            )
        )
    for line in lines:
        report.say(line)
