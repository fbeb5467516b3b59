"""When a version of a document begins, and whether the one before it is kept (decision 0059). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kb import identity, selection
from kb.graph import model


def revision(chunk_ids: Sequence[str], given: str) -> str:
    """Changes with the text of a document and with what its caller gives; not with what models read in it."""
    return identity.digest("\n".join([*chunk_ids, given]))[:16]


def succeed(present: model.Version | None, patch: model.Patch, now_ms: int) -> model.Patch:
    """`patch` with its beginning and, where it replaces another version, what becomes of that one.

    A version begins when it was observed; where that is unknown, or not later than the version before, when it was
    ingested (`now_ms`). The same revision sent again goes on as it began.
    """
    document = patch.document
    if present is None:
        return patch
    began = present.document.start_ms
    if present.revision == patch.revision or (not present.revision and set(present.chunk_ids) == set(patch.chunk_ids)):
        return replace(patch, document=_since(document, selection.ALWAYS if began is None else began))
    observed = document.observed_ms
    turn = observed if observed is not None and (began is None or observed > began) else now_ms
    # A document can be dated in the future; its version before then held at no moment.
    turn = turn if began is None else max(turn, began)
    kept = model.Keep(identity.version(document.id, present.revision, began), turn)
    return replace(patch, document=_since(document, turn), keep=kept if turn != began else None)


def _since(document: model.Document, begin: int) -> model.Document:
    # Only what differs from the time of observation is recorded.
    plain = selection.ALWAYS if document.observed_ms is None else document.observed_ms
    return replace(document, since_ms=None if begin == plain else begin)
