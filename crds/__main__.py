"""`python -m crds` prints the three CRDs; `--write` writes the files beside this module and docs/api.md, `--check`
compares them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from crds import GROUP, definitions, reference

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "api.md"
_BANNER = "# Generated from the models in crds/ by `python -m crds --write`. Do not edit.\n"


class _Dumper(yaml.SafeDumper):
    """Writes every list and mapping in full: anchors do not survive server-side apply's field ownership."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def render(definition: definitions.Definition) -> str:
    """The CRD as committed."""
    return _BANNER + yaml.dump(definition.manifest(), Dumper=_Dumper, sort_keys=False, width=120)


def path(definition: definitions.Definition) -> Path:
    """The committed file."""
    return HERE / f"{GROUP}_{definition.plural}.yaml"


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit status."""
    if arguments not in ([], ["--write"], ["--check"]):
        sys.stderr.write("usage: python -m crds [--write | --check]\n")
        return 2
    if arguments == ["--check"]:
        return _check()
    for file, text in _files().items():
        if arguments:
            file.write_text(text, encoding="utf-8")
        elif file != PAGE:
            sys.stdout.write("---\n" + text)
    return 0


def _files() -> dict[Path, str]:
    """What is written, by its place."""
    return {path(one): render(one) for one in definitions.ALL} | {PAGE: reference.page()}


def _check() -> int:
    """0, or 1 with one line on stderr for each file that is not what the models say."""
    stale = [file.relative_to(HERE.parent) for file, text in _files().items() if not _is(file, text)]
    for name in stale:
        sys.stderr.write(f"{name} is out of date: python -m crds --write\n")
    return 1 if stale else 0


def _is(file: Path, text: str) -> bool:
    return file.exists() and file.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
