"""What a vision model sees on the pages of a PDF that have little text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from crds import errors as root
from crds import priority, scope
from kb import errors, metrics
from kb.files import image, pages, tika, vision


@dataclass(frozen=True)
class Seen:
    """By the number of the page, from 1; `problems` name the pages that could not be looked at and why."""

    sights: Mapping[int, image.Sight] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


class Scans:
    """Draws pages and asks about them, before what runs in the background: a document waits for them."""

    def __init__(self, renderer: pages.Renderer, seeing: vision.Models, meters: metrics.Metrics) -> None:
        self._renderer = renderer
        self._seeing = seeing
        self._meters = meters

    async def see(
        self, raw: bytes, read: tika.Extracted, owner: scope.Scope, *, named: str, urgency: priority.Priority
    ) -> Seen:
        """`read` is what Tika says of the PDF. Raises what is operational; a vision model that no backend has costs no
        file that has text."""
        wanted, beyond = pages.sparse(read.page_chars, self._renderer.limits)
        if not wanted:
            return Seen()
        with self._meters.stages.labels("pages").time():
            drawn = await self._renderer.draw(raw, wanted)
        with self._meters.stages.labels("vision").time():
            titles = [f"{named}, page {number}" if named else f"page {number}" for number in drawn.images]
            shown = [(title, "image/png", png) for title, png in zip(titles, drawn.images.values(), strict=True)]
            looked = await self._seeing.describe_all(shown, owner, urgency)
        sights: dict[int, image.Sight] = {}
        problems = list(drawn.problems)
        for number, one in zip(drawn.images, looked, strict=True):
            if isinstance(one, image.Sight):
                sights[number] = one
            elif isinstance(one, root.Operational) and not (isinstance(one, errors.Unconfigured) and read.text.strip()):
                raise one
            else:
                problems.append(f"page {number} could not be looked at: {one.message}")
        beyond = [*drawn.beyond, *beyond]
        self._meters.pages.labels("seen").inc(len(sights))
        self._meters.pages.labels("missed").inc(len(problems) + len(beyond))
        if beyond:
            problems.append(
                f"{len(beyond)} more pages with little text were not looked at, from page {beyond[0]} on: of a file at "
                f"most {self._renderer.limits.pages} are"
            )
        return Seen(sights, tuple(problems))
