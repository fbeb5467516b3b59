"""`python -m hack.models [MODEL...]`: fetches small real models, makes them for Ollama, and prints what there is.

MODEL is one of the names that --help lists; without one, those of `make demo MODEL=small`. `OLLAMA_MODELS` in what it
prints is the store for an Ollama of your own: `OLLAMA_MODELS=... ollama serve`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hack import ollama
from hack.cluster import errors, progress
from hack.models import catalogue, store


def main(arguments: Sequence[str]) -> int:
    """Exit status: 0, or 2 with one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m hack.models", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(catalogue.ALL))
    names: list[str] = parser.parse_args(arguments).models
    if unknown := sorted(set(names) - set(catalogue.ALL)):
        parser.error(f"no model {', '.join(unknown)}: there are {', '.join(catalogue.ALL)}")
    models = [catalogue.ALL[name] for name in names] or list(catalogue.SMALL)
    report = progress.Progress()
    try:
        folder = store.ensure(models, ollama.program(report), report)
    except errors.Failure as failure:
        print(f"no models: {failure}", file=sys.stderr)
        return 2
    for model in models:
        print(f"{model.name:<16} {model.size} parameters: {model.about}")
    print(f"OLLAMA_MODELS={folder / 'models'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
