"""The book of GPU slots: what the Ready GPU backends offer, minus what is booked. Pure.

Source: blueprint section 4 "a GPU slot (from GpuBackend)"; a slot is one of a backend's `numParallel`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from controllers.pendingtask import world


@dataclass(frozen=True, slots=True)
class Offer:
    """One backend's slots, zero unless it is a Ready GPU that is not draining."""

    name: str
    slots: int


def count(offers: Iterable[Offer], booked: Iterable[str]) -> world.Slots:
    """The free slots, emptiest backend first. A booking without a known backend takes one from the common total."""
    listed = [offer for offer in offers if offer.slots > 0]
    total = sum(offer.slots for offer in listed)
    names = {offer.name for offer in listed}
    taken = Counter(name if name in names else "" for name in booked)
    free = sorted(
        ((offer.name, offer.slots - taken[offer.name]) for offer in listed), key=lambda one: (-one[1], one[0])
    )
    left = total - sum(taken.values())
    return world.Slots(total=total, free=tuple(one for one in free if one[1] > 0) if left > 0 else ())
