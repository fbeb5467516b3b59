"""Keys from a mounted folder: as the kubelet writes it, changed while it is read, and wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from crds import keyring, runtoken

OLD, NEW = "old-" * 12, "new-" * 12


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def publish(folder: Path, keys: Mapping[str, str], version: int) -> None:
    """As the kubelet does: a new folder, and a link to it that is exchanged."""
    data = folder / f"..{version}"
    data.mkdir(parents=True)
    for name, key in keys.items():
        (data / name).write_text(key + "\n")
    link = folder / "..next"
    link.symlink_to(data.name)
    os.replace(link, folder / "..data")
    for entry in folder.iterdir():
        if not entry.name.startswith(".") and entry.name not in keys:
            entry.unlink()
    for name in keys:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


def ids(*keys: str) -> list[str]:
    return list(runtoken.ring([key.encode() for key in keys]))


def test_the_key_named_signing_signs_and_the_others_are_accepted(tmp_path: Path) -> None:
    publish(tmp_path, {"a-former": OLD, "signing": NEW}, 1)
    assert list(keyring.Keyring(tmp_path, Seconds())()) == ids(NEW, OLD)


def test_a_change_is_taken_within_a_second_and_not_before(tmp_path: Path) -> None:
    publish(tmp_path, {"signing": OLD}, 1)
    seconds = Seconds()
    keys = keyring.Keyring(tmp_path, seconds)
    before = keys()
    publish(tmp_path, {"signing": NEW, "former": OLD}, 2)
    seconds.now = 0.5
    assert keys() is before
    seconds.now = 1.0
    assert list(keys()) == ids(NEW, OLD)
    assert keys() is keys()
    publish(tmp_path, {"signing": NEW}, 3)
    seconds.now = 2.0
    assert list(keys()) == ids(NEW)


@pytest.mark.parametrize("wrong", [{"signing": "short"}, {"former": OLD}, {}, {"signing": NEW, "former": ""}])
def test_keys_that_became_wrong_leave_the_former_ones(tmp_path: Path, wrong: dict[str, str]) -> None:
    publish(tmp_path, {"signing": OLD}, 1)
    seconds = Seconds()
    keys = keyring.Keyring(tmp_path, seconds)
    publish(tmp_path, wrong, 2)
    seconds.now = 5.0
    assert list(keys()) == ids(OLD)
    publish(tmp_path, {"signing": NEW}, 3)
    seconds.now = 6.0
    assert list(keys()) == ids(NEW)


@pytest.mark.parametrize("wrong", [{"signing": "short"}, {"former": OLD}, {}, {"signing": "x" * 5000}])
def test_wrong_keys_at_the_start_name_field_and_remedy(tmp_path: Path, wrong: dict[str, str]) -> None:
    publish(tmp_path, wrong, 1)
    with pytest.raises(runtoken.Unusable) as refused:
        keyring.Keyring(tmp_path, Seconds())
    assert refused.value.field == "runToken.existingSecret"
    assert str(tmp_path) in refused.value.message
    assert "signing" in (refused.value.remedy or "")
    assert all(key not in refused.value.message for key in wrong.values() if key)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(runtoken.Unusable, match="nothing-here"):
        keyring.Keyring(tmp_path / "nothing-here", Seconds())
