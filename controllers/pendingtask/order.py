"""Who comes first: the order of `crds.order`, which the command line shows as well."""

from __future__ import annotations

from crds.order import Order, foreground, of

__all__ = ["Order", "foreground", "of"]
