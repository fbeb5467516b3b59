"""From bytes to text, whichever way they have to go: as they are, through Tika, or past a vision model.

Pages of a PDF with little text go both ways (`kb.files.scans`): what a vision model sees stands behind the text.
What is refused for good is counted here; what is merely away is no upload yet.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from crds import errors as root
from crds import priority, scope
from kb import errors, hidden, identity, metrics, paging
from kb.files import image, inside, inspection, pages, scans, sniff, tika, unseen, vision
from kb.hidden import placing


@dataclass(frozen=True)
class Read:
    """What a file says, with its hidden parts marked (`kb.hidden`). `kind` is "file" or "image", `digest` the SHA-256
    of its bytes, `size` their number.

    `pages`: those of a PDF that a vision model looked at; `problems` name those that could not be looked at. `images`:
    those that stand in a mail or a page and that a vision model looked at. `starts`: where in the text of a PDF its
    pages begin.
    """

    text: str
    title: str
    media_type: str
    kind: str
    digest: str
    size: int
    pages: tuple[int, ...] = ()
    problems: tuple[str, ...] = ()
    images: tuple[inside.Image, ...] = ()
    starts: paging.Starts = ()


Sight = Callable[[str], bool]
"""Whether a vision model may look at what stands in a document with this text."""


def always(text: str) -> bool:
    """It may."""
    return True


def never(text: str) -> bool:
    """It must not."""
    return False


class Reader:
    """Without `tika` files that need it are refused; `seeing` asks a vision model, of pages if `renderer` draws them.

    Raises `kb.errors.Invalid` or `TooLarge` for a file that is not taken, `Misconfigured` without Tika, and what is
    operational when Tika or the router are away.
    """

    def __init__(
        self,
        reader: tika.Tika | None,
        seeing: vision.Models,
        meters: metrics.Metrics,
        renderer: pages.Renderer | None = None,
        inner: inside.Limits | None = None,
        search: unseen.Search | None = None,
    ) -> None:
        self._inner = inner or inside.Limits()
        self._search = search or unseen.Search()
        self._tika = reader
        self._scans = scans.Scans(renderer, seeing, meters) if renderer else None
        self._seeing = seeing
        self._meters = meters

    async def file(
        self, raw: bytes, owner: scope.Scope, *, named: str, urgency: priority.Priority, sight: Sight = always
    ) -> Read:
        """The text of a document. No vision model is asked about its pages and images where `sight` of its text says
        no: that of a mail is as it was sent."""
        with self._counted("unknown"):
            kind = await asyncio.to_thread(_inspected, raw)
        with self._counted(kind.value):
            found = await self._extracted(raw, kind)
            looks, seen = sight(_sent(raw, kind, found)), scans.Seen()
            if looks and self._scans is not None:
                seen = await self._scans.see(raw, found, owner, named=named or found.title, urgency=urgency)
            text, starts, unsearched = await self._marked(raw, kind, found)
            for number, one in sorted(seen.sights.items()):
                starts = paging.of([*starts, (len(text), number)])
                text = f"{text}\n\n{hidden.plain(pages.text({number: one}))}"
            if not text.strip():
                said = "; ".join(("the file has no text", *seen.problems))
                raise errors.Invalid(said, field="body", remedy="Send scanned pages as images.")
        digest, size = identity.digest_bytes(raw), len(raw)
        images, problems = await self._within(raw, kind, owner, urgency) if looks else ((), ())
        problems = (*seen.problems, *problems, *([unsearched] if unsearched else []))
        return Read(text, found.title, kind.value, "file", digest, size, tuple(seen.sights), problems, images, starts)

    async def image(self, raw: bytes, owner: scope.Scope, *, named: str, urgency: priority.Priority) -> Read:
        """What the vision model sees; `named` is what its sender calls it."""
        with self._counted("unknown"):
            media_type = image.check(raw)
        with self._counted(media_type), self._meters.stages.labels("vision").time():
            sight_urgency = min(urgency, priority.Priority.P2)
            sight = await self._seeing.describe(raw, owner, title=named, kind=media_type, urgency=sight_urgency)
        said = hidden.marked(image.document(sight))
        return Read(said, sight.title, media_type, "image", identity.digest_bytes(raw), len(raw))

    async def either(
        self, raw: bytes, owner: scope.Scope, *, named: str, urgency: priority.Priority, sight: Sight = always
    ) -> Read:
        """An image if its bytes say so, else a document; what the sender calls it decides nothing."""
        if image.looks_like(raw):
            return await self.image(raw, owner, named=named, urgency=urgency)
        return await self.file(raw, owner, named=named, urgency=urgency, sight=sight)

    def taken(self, read: Read) -> None:
        """Count it as taken."""
        self._meters.uploads.labels(read.media_type, "taken").inc()

    async def _extracted(self, raw: bytes, kind: sniff.Type) -> tika.Extracted:
        if kind is sniff.Type.TEXT:
            return tika.Extracted(raw.decode(), "")
        if self._tika is None:
            raise errors.Misconfigured(
                "this knowledge base has no Tika",
                field="tikaUrl",
                remedy="Set JERVIS_KB_TIKA_URL, or send the file's text.",
            )
        with self._meters.stages.labels("tika").time():
            return await self._tika.extract(raw, kind)

    async def _marked(self, raw: bytes, kind: sniff.Type, read: tika.Extracted) -> tuple[str, paging.Starts, str]:
        """The text of a file with its hidden parts marked, where its pages begin then, and why not all of the parts are
        known, or ""."""
        pieces, why = list[placing.Piece](), ""
        if kind is sniff.Type.TEXT:
            return await asyncio.to_thread(hidden.marked, read.text), (), ""
        if kind in unseen.TYPES:
            with self._meters.stages.labels("hidden").time():
                pieces, why = await self._search.find(raw, kind)
        elif kind in (sniff.Type.HTML, sniff.Type.EML):
            pieces = await asyncio.to_thread(hidden.pieces, raw, mail=kind is sniff.Type.EML)
        text, starts = await asyncio.to_thread(
            paging.carried, read.text, read.starts, lambda said: hidden.placed(said, pieces)
        )
        return text, starts, why

    async def _within(
        self, raw: bytes, kind: sniff.Type, owner: scope.Scope, urgency: priority.Priority
    ) -> tuple[tuple[inside.Image, ...], tuple[str, ...]]:
        """The images in a mail or a page, which Tika does not read, and why others are not among them. They are looked
        at now, and what is seen is kept for who stores it. Raises what is operational, but for a missing model."""
        if kind not in (sniff.Type.HTML, sniff.Type.EML):
            return (), ()
        taken = await asyncio.to_thread(inside.take, raw.decode("utf-8", "replace"), self._inner)
        with self._meters.stages.labels("vision").time():
            shown = [(one.name, one.media_type, one.body) for one in taken.images]
            looked = await self._seeing.describe_all(shown, owner, urgency)
        problems = list(taken.problems)
        for one, said in zip(taken.images, looked, strict=True):
            if isinstance(said, root.Operational) and not isinstance(said, errors.Unconfigured):
                raise said
            if isinstance(said, root.JervisError):
                problems.append(f"{one.name}: {said.message}")
        return taken.images, tuple(problems)

    @contextlib.contextmanager
    def _counted(self, media_type: str) -> Iterator[None]:
        try:
            yield
        except root.Permanent:
            self._meters.uploads.labels(media_type, "refused").inc()
            raise


def _sent(raw: bytes, kind: sniff.Type, found: tika.Extracted) -> str:
    # Tika leaves out the header, which says who sent it.
    return f"{raw.decode('utf-8', 'replace')}\n{found.text}" if kind is sniff.Type.EML else found.text


def _inspected(raw: bytes) -> sniff.Type:
    kind = sniff.detect(raw)
    inspection.check(raw, kind, inspection.Limits())
    return kind
