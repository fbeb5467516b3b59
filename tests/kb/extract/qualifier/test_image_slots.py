"""Images of all documents of a process share a room of bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from crds.priority import Priority
from kb import metrics
from kb.extract import answers, draft
from kb.extract.qualifier import image_reading, image_slots, phases
from kb.files import vision
from kb.ingest import extractor
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import world
from tests.kb.extract.qualifier.test_scenarios import document
from tests.kb.extract.qualifier.test_vision import LETTERS, TICKET, attached


@pytest.mark.parametrize("sizes", [[3, 3, 3, 3], [10, 1, 99, 4], [99, 99], [1] * 30])
async def test_no_more_is_held_than_there_is_room_for_and_all_have_it_in_turn(sizes: Sequence[int]) -> None:
    shared, held, most, order = image_slots.ImageSlots(10), list[int](), 0, list[int]()

    async def hold(number: int, size: int) -> None:
        nonlocal most
        async with shared.of(size):
            order.append(number)
            held.append(min(size, 10))
            most = max(most, sum(held))
            await asyncio.sleep(0)
            held.remove(min(size, 10))

    await asyncio.gather(*(hold(number, size) for number, size in enumerate(sizes)))
    assert most <= 10
    assert order == list(range(len(sizes)))


async def test_one_that_gives_up_waiting_leaves_the_room_to_the_others() -> None:
    shared = image_slots.ImageSlots(10)
    async with shared.of(10):
        first = asyncio.create_task(shared.of(5).__aenter__())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    async def whole() -> None:
        async with shared.of(10):
            pass

    await waiting.done(whole())


async def test_documents_that_are_qualified_at_once_wait_for_the_room_of_their_images(
    kb: world.ObservedState, meters: metrics.Metrics, fake: process.Fake
) -> None:
    files = await attached(kb, TICKET, LETTERS)
    small = max(one.content_ref.bytes for one in files)
    eyes = image_reading.Eyes(vision.Models(kb.answers), kb.content, 1 << 20, image_slots.ImageSlots(2 * small))
    qualifier = phases.Qualifier(kb.answers, meters, kb.clock, eyes)

    async def read(made: draft.Draft, spent: answers.Spent) -> extractor.ExtractionResult:
        return extractor.ExtractionResult({})

    def run(number: int) -> Any:
        named = [one.model_copy(update={"name": f"{number}-{one.name}"}) for one in files]
        request = document("EMAIL", files=named, urn=f"email::m{number}")
        made = draft.make(request, world.MAIL, size=4000, overlap=200)
        return qualifier.run(request, world.MAIL, made, Priority.P3, read)

    async def run_all() -> list[Any]:
        return await asyncio.gather(*(run(number) for number in range(3)))

    async with world.stalled(fake, run_all(), tag="kb.describe/v1") as running:
        await waiting.eventually(lambda: fake.count(tag="kb.describe/v1") >= 2)
        await asyncio.sleep(0.3)
        at_once = fake.count(tag="kb.describe/v1")
    found = [one.state for one in await running]
    assert at_once == 2
    assert all(one.vision_analysis for state in found for one in state.attachments)
    assert fake.count(tag="kb.describe/v1") == 6
    assert all(state.vision.type_specific_vision_details for state in found)
