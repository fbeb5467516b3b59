"""`python -m crds` prints the three CRDs; `python -m crds --write` writes the files beside this module."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from crds import GROUP, definitions

HERE = Path(__file__).parent
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
    if arguments not in ([], ["--write"]):
        sys.stderr.write("usage: python -m crds [--write]\n")
        return 2
    for definition in definitions.ALL:
        if arguments:
            path(definition).write_text(render(definition))
        else:
            sys.stdout.write("---\n" + render(definition))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
