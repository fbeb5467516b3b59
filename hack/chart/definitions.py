"""The committed CRDs as templates of the chart.

They stand in `templates/`, since Helm never upgrades what stands in a chart's `crds/` folder, behind `crds.enabled`
and with `helm.sh/resource-policy: keep`: uninstalling the release must not delete every task.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "crds"
TARGET = ROOT / "charts" / "jervis" / "templates" / "crds"

_HEAD = """\
{{- /* Written by `python -m hack.chart` from crds/%s; do not edit. */}}
{{- if .Values.crds.enabled }}
"""
_METADATA = """\
metadata:
  labels:
    {{- include "jervis.labels" (dict "root" . "component" "crds") | nindent 4 }}
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
"""
_TAIL = "{{- end }}\n"


class UnexpectedError(ValueError):
    """A CRD that this page does not know how to turn into a template; the message names the file."""


def template(source: Path) -> str:
    """The chart's version of one committed CRD. Raises UnexpectedError if its metadata holds more than a name."""
    lines = [line for line in source.read_text(encoding="utf-8").splitlines(keepends=True) if not line.startswith("#")]
    text = "".join(lines).replace("{{", '{{ "{{" }}')
    before, mark, after = text.partition("\nmetadata:\n")
    if not mark or not after.startswith("  name: ") or not after.partition("\n")[2].startswith("spec:"):
        raise UnexpectedError(f"{source.name}: expected `metadata:` with a name alone, followed by `spec:`")
    return _HEAD % source.name + before + "\n" + _METADATA + after + _TAIL


def templates() -> dict[Path, str]:
    """Every file that belongs into the chart's templates/crds, by path."""
    return {TARGET / source.name: template(source) for source in sorted(SOURCE.glob("*.yaml"))}
