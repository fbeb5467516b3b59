"""Disks of the local cluster: whose directories are emptied when their claims are gone."""

from __future__ import annotations

from typing import Any

from hack.cluster import addons, layout


def volume(name: str, phase: str, source: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"phase": phase}, "spec": source}


def test_only_disks_of_ours_whose_claims_are_gone_are_emptied() -> None:
    place = layout.read({})
    disks = place.directory / "disks"
    volumes = [
        volume("gone", "Released", {"local": {"path": str(disks / "1")}}),
        volume("bound", "Bound", {"local": {"path": str(disks / "2")}}),
        volume("theirs", "Released", {"local": {"path": "/srv/data"}}),
        volume("beside", "Released", {"local": {"path": f"{disks}/1/../../etcd"}}),
        volume("other", "Released", {"hostPath": {"path": str(disks / "3")}}),
    ]
    assert addons.left_disks(place, volumes) == [("gone", disks / "1")]
