"""Images that stand in a document itself (`kb.files.inside`): looked at and stored as attachments with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from crds import errors as root
from crds import priority
from kb import api, errors
from kb.extract.qualifier import image_reading as sights
from kb.files import image, inside

PATIENCE = 8
"""Tries of a document after which it waits no longer for a vision model that is away, as a task's files do not."""
Index = Callable[[api.IngestRequest, priority.Priority], Awaitable[api.IndexReply]]


class Images:
    """`index` makes a document findable; without `eyes` no image is looked at or stored."""

    def __init__(self, eyes: sights.Eyes | None, index: Index) -> None:
        self._eyes = eyes
        self._index = index

    async def look(
        self, parent: api.IngestRequest, images: Sequence[inside.Image], urgency: priority.Priority, *, late: bool
    ) -> list[tuple[inside.Image, image.Sight]]:
        """Each with what it shows, which is kept; without those that no model can describe. Raises what is operational,
        but for a vision model that no backend has, and unless it is `late`."""
        if self._eyes is None:
            return []
        shown = [(one.name, one.media_type, one.body) for one in images]
        found = await self._eyes.models.describe_all(shown, parent.scope, urgency)
        for said in found:
            if isinstance(said, root.Operational) and not (late or isinstance(said, errors.Unconfigured)):
                raise said
        return [(one, said) for one, said in zip(images, found, strict=True) if isinstance(said, image.Sight)]

    async def store(
        self, parent: api.IngestRequest, images: Sequence[inside.Image], urgency: priority.Priority, *, late: bool
    ) -> list[api.InnerImage]:
        """Make what they show known, each as an attachment of `parent`. Raises what `look` and `index` raise."""
        kept: list[api.InnerImage] = []
        for one, sight in await self.look(parent, images, urgency, late=late):
            reply = await self._index(_document(parent, one, sight), urgency)
            if reply.indexed and reply.superseded_by is None:
                kept.append(
                    api.InnerImage(
                        name=one.name,
                        source_urn=reply.source_urn,
                        media_type=one.media_type,
                        size=len(one.body),
                        chunk_ids=reply.chunk_ids,
                    )
                )
        return kept


def beside(request: api.IngestRequest, images: Sequence[inside.Image], *, late: bool = False) -> api.IngestRequest:
    """The request with its own images as files, for the qualifier alone: it is recorded without them."""
    files = [*request.files, *(one.file(optional=late) for one in images)]
    return request.model_copy(update={"files": files}) if images else request


def _document(parent: api.IngestRequest, one: inside.Image, sight: image.Sight) -> api.IngestRequest:
    return api.IngestRequest(
        scope=parent.scope,
        source_urn=api.attachment_urn(parent.source_urn, one.name),
        kind=api.ATTACHMENT,
        title=(f"{one.name} (in {parent.title})" if parent.title else one.name)[:1000],
        content=image.document(sight),
        observed_at=parent.observed_at,
    )
