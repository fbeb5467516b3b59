"""The two looks at the images of a document: what each shows, and what matters in them for its type (seed 003)."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field

from crds import errors as root
from crds import scope
from kb import api, errors, hidden, identity
from kb.content import store as content
from kb.extract import answers, hints, typed
from kb.extract.qualifier import image_slots, run_context, state
from kb.files import image, inside, vision

_LOOKS = 4
"""Images that are looked at at once."""
_SEEN_CHARS = 6000


@dataclass(frozen=True)
class Eyes:
    """How images are looked at: of at most `limit` bytes each, from `content`, by one of `models`, in `room`."""

    models: vision.Models
    content: content.Store
    limit: int
    room: image_slots.ImageSlots = field(default_factory=image_slots.ImageSlots)

    async def load(self, owner: scope.Scope, file: api.File) -> tuple[bytes, str]:
        """An image and its media type. Raises `kb.errors.Invalid`, `TooLarge`, `NotFound`, or what is operational."""
        if isinstance(file, inside.File):
            return file.body, image.check(file.body)
        reference = file.content_ref
        if reference.bytes > self.limit:
            raise errors.TooLarge(f"the file has {reference.bytes} bytes, at most {self.limit} are read")
        body = await self.content.load(owner, reference.key)
        if identity.digest_bytes(body) != reference.sha256:
            raise errors.Invalid("the stored content is not what contentRef describes")
        return body, image.check(body)

    async def look(
        self, work: run_context.Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState | None:
        """Stage 1: what each image shows. An image that cannot be looked at is a problem; the others are looked at."""
        if not work.request.files or not work.overrides.looks:
            return None
        sizes = [one.content_ref.bytes for one in work.request.files]
        slots = asyncio.Semaphore(_LOOKS)

        async def one_of(file: api.File) -> image.Sight | root.JervisError:
            owner = work.request.scope
            try:
                async with slots, self.room.of(file.content_ref.bytes):
                    body, kind = await self.load(owner, file)
                    return await self.models.describe(
                        body, owner, title=file.name, kind=kind, urgency=work.sight, among=sizes, spent=spent
                    )
            except root.JervisError as error:
                return error

        # All are awaited even when one fails: the answers that do arrive are kept for the repeated call.
        found = await asyncio.gather(*(one_of(one) for one in work.request.files))
        for file, one in zip(work.request.files, found, strict=True):
            _raise_operational(one, file)
        seen = []
        for known, one in zip(now.attachments, found, strict=True):
            if isinstance(one, root.JervisError):
                problems.append(f"{known.name}: {one.message}")
                seen.append(known)
            else:
                said = hints.excerpt(hidden.plain(image.document(one)), _SEEN_CHARS)
                seen.append(known.model_copy(update={"vision_analysis": said}))
        told = [f"{one.name}: {one.vision_analysis}" for one in seen if one.vision_analysis is not None]
        summary = hints.excerpt("\n\n".join(told), _SEEN_CHARS) if told else None
        context = now.vision.model_copy(update={"general_vision_summary": summary})
        return now.model_copy(update={"attachments": tuple(seen), "vision": context})

    async def look_closer(
        self, work: run_context.Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState | None:
        """Stage 2: what matters for the type, in the first images that stage 1 could look at, by one call."""
        summary = now.vision.general_vision_summary
        if summary is None or now.content_type is api.ContentType.GENERIC:
            return None
        owner = work.request.scope
        files = zip(now.attachments, work.request.files, strict=True)
        seen = [file for known, file in files if known.vision_analysis is not None][:_LOOKS]
        totals = itertools.accumulate(one.content_ref.bytes for one in seen)
        # The first one, and as many more as there is room for in one request.
        wanted = [
            one for n, (one, total) in enumerate(zip(seen, totals, strict=True)) if not n or total <= self.room.most
        ]
        sizes = [one.content_ref.bytes for one in wanted]
        try:
            async with self.room.of(sum(sizes)):
                images = [(await self.load(owner, file))[0] for file in wanted]
                question = typed.look(now.content_type, work.request, summary, images)
                said = await self.models.choose(sizes).ask(question, typed.Details, work.sight, owner, spent)
        except root.JervisError as error:
            _raise_operational(error, *wanted)
            problems.append(error.message)
            return now
        context = now.vision.model_copy(update={"type_specific_vision_details": said.details.strip() or None})
        return now.model_copy(update={"vision": context})


def _raise_operational(found: object, *files: api.File) -> None:
    """A model that no backend has will not be there soon: the document goes on without it."""
    waits = not all(isinstance(one, inside.File) and one.optional for one in files)
    if waits and isinstance(found, root.Operational) and not isinstance(found, errors.Unconfigured):
        raise found
