"""`python -m hack.chart`: write the chart's CRD templates, its admission rules, the schema of its settings and the
README's table of values.

`--check` compares them only: exit status 1 and one line for each file that is out of date.
"""

from __future__ import annotations

import sys

from hack.chart import admission, definitions, readme, settings


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit status."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: python -m hack.chart [--check]\n")
        return 2
    wanted = {
        **definitions.templates(),
        admission.TARGET: admission.rules(),
        settings.TARGET: settings.rendered(),
        settings.CHART / "README.md": readme.rendered(),
    }
    stale = set(definitions.TARGET.glob("*.yaml")) - set(wanted)
    if arguments:
        wrong = stale | {path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text}
        for path in sorted(wrong):
            sys.stderr.write(f"{path.relative_to(definitions.ROOT)} is out of date: python -m hack.chart\n")
        return 1 if wrong else 0
    definitions.TARGET.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(definitions.ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
