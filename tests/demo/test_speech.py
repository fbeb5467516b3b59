"""The recording of `make demo MODEL=small`: what the release gets for it, and who may upload it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from crds import grants, scope
from hack.cluster import layout
from hack.demo import settings, speech

_SCHEMA = json.loads((layout.CHECKOUT / "charts/jervis/values.schema.json").read_text())


def test_the_chart_takes_its_values() -> None:
    values = speech.values()
    properties = {name: {**_SCHEMA["properties"][name], "required": []} for name in values}
    jsonschema.validate(values, {**_SCHEMA, "properties": properties, "required": []})


def test_who_uploads_has_one_token_that_the_release_knows(tmp_path: Path) -> None:
    wanted = settings.Settings(kubeconfig="", local=True, checkout=layout.CHECKOUT, state=tmp_path, small=True)
    token = speech.token(wanted)
    assert speech.token(wanted) == token
    assert (tmp_path / "sources-token").stat().st_mode & 0o077 == 0
    secret, volume, claim = speech.manifests(token, tmp_path / "whisper")
    file = tmp_path / "tokens.yaml"
    file.write_text(secret["stringData"]["tokens.yaml"])
    grant = grants.Book(file).find(token)
    assert grant is not None
    assert grant.allows(scope.Scope(client_id=settings.CLIENT), writing=True)
    assert not grant.allows(scope.Scope(client_id="another"), writing=True)
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert volume["spec"]["hostPath"]["path"] == str(tmp_path / "whisper")
    [mounted] = speech.values()["transcription"]["volumes"]
    assert mounted["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
