"""`python -m hack.chart`: write the chart's CRD templates, its admission rules and the README's table of values."""

from __future__ import annotations

import sys

from hack.chart import admission, definitions, readme


def main() -> int:
    """Entry point; returns the exit status."""
    wanted = definitions.templates()
    definitions.TARGET.mkdir(parents=True, exist_ok=True)
    for stale in set(definitions.TARGET.glob("*.yaml")) - set(wanted):
        stale.unlink()
    derived = {admission.TARGET: admission.rules(), readme.CHART / "README.md": readme.rendered()}
    for path, text in {**wanted, **derived}.items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(definitions.ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
