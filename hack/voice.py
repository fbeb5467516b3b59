"""Recordings with speech whose words and times are known: sentences that espeak-ng says, a recorded voice of Debian's
asterisk-core-sounds-en-wav (8 kHz), pauses and noise.

    python -m hack.voice weekly.wav "The review is on Friday."         a short recording, spoken by espeak-ng
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import wave
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hack.cluster import binaries, errors, progress

PACKAGE = "asterisk-core-sounds-en-wav"
WORDS = Path(__file__).with_name("recorded_voice.txt")
QUIET = 300
"""Of 32,768: what is not louder is no speech."""
Samples = NDArray[np.int16]


@dataclass(frozen=True)
class Said:
    """Words of a recording, and the seconds at which they begin and end there."""

    words: str
    start: float
    end: float


@dataclass(frozen=True)
class Utterance:
    """Words and how they sound."""

    words: str
    samples: Samples


def spoken(to: Path, text: str, *, language: str = "en", speed: int = 140) -> Path:
    """Write `text` as espeak-ng says it, a WAV of 22,050 Hz; `speed` is in words a minute. Raises errors.Missing."""
    program = shutil.which("espeak-ng")
    if program is None:
        raise errors.Missing("espeak-ng is missing: apt-get install espeak-ng, or make programs")
    subprocess.run([program, "-v", language, "-s", str(speed), "-w", str(to), "--", text], check=True)
    return to


def read(path: Path) -> tuple[int, Samples]:
    """Rate and samples of a WAV with one channel of 16 bits."""
    with wave.open(str(path)) as opened:
        return opened.getframerate(), np.frombuffer(opened.readframes(opened.getnframes()), np.int16)


def write(to: Path, rate: int, parts: Iterable[Utterance | Samples]) -> list[Said]:
    """A WAV with these parts in their order, written part by part: what is said in it, and when."""
    said, written = [], 0
    with wave.open(str(to), "wb") as opened:
        opened.setnchannels(1)
        opened.setsampwidth(2)
        opened.setframerate(rate)
        for part in parts:
            samples = part.samples if isinstance(part, Utterance) else part
            if isinstance(part, Utterance):
                loud = np.flatnonzero(np.abs(samples.astype(np.int32)) > QUIET)
                said.append(Said(part.words, (written + int(loud[0])) / rate, (written + int(loud[-1])) / rate))
            opened.writeframes(samples.tobytes())
            written += len(samples)
    return said


def silence(seconds: float, rate: int) -> Samples:
    """No sound at all."""
    return np.zeros(round(seconds * rate), np.int16)


def noise(seconds: float, rate: int, *, loudness: int = 300, seed: int = 7) -> Samples:
    """White noise; `loudness` is its standard deviation, of 32,768."""
    return (np.random.default_rng(seed).standard_normal(round(seconds * rate)) * loudness).astype(np.int16)


def recorded(report: progress.Progress) -> list[Utterance]:
    """The recorded voice, 45 utterances of 8,000 samples a second; fetched first if the cache lacks it. Raises
    errors.Missing with the remedy."""
    target = binaries.cache() / "models" / PACKAGE
    folder = binaries.build_once(target, report, "fetching a recorded voice (18 MB, once)", _fetch, 10)
    lines = [line for line in WORDS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    [voice] = folder.glob("usr/share/asterisk/sounds/en_US*")
    named = [line.partition(": ") for line in lines]
    return [Utterance(words, read(voice / f"{name}.wav")[1]) for name, _, words in named]


def _fetch(scratch: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise errors.Missing(f"{PACKAGE} is a package of Debian: apt-get and dpkg-deb are needed to fetch it")
    fetched = subprocess.run(
        ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", PACKAGE], cwd=scratch, capture_output=True
    )
    if fetched.returncode != 0:
        raise errors.Missing(f"{PACKAGE} cannot be fetched: apt-get update, then apt-get download {PACKAGE} must work")
    for package in list(scratch.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, scratch], check=True)
        package.unlink()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write one recording; one line on stderr when that cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m hack.voice", description="A recording, spoken by espeak-ng.")
    parser.add_argument("to", type=Path)
    parser.add_argument("text")
    parser.add_argument("--language", default="en")
    options = parser.parse_args(arguments)
    try:
        spoken(options.to, options.text, language=options.language)
    except errors.Missing as error:
        print(f"no recording: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
