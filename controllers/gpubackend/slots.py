"""The book of GPU slots: what the Ready GPU backends offer, minus what is booked. Pure.

Source: blueprint section 4 "a GPU slot (from GpuBackend)"; a slot is one of a backend's `numParallel`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controllers.pendingtask import world


@dataclass(frozen=True, slots=True)
class Offer:
    """One backend's slots, zero unless it is a Ready GPU that is not draining."""

    name: str
    slots: int


def count(offers: Iterable[Offer], booked: Mapping[str, int]) -> world.Slots:
    """The free slots, emptiest backend first. A booking without a known backend takes one from the common total.

    `booked` counts by backend. One backend may be booked beyond what it offers (it offers less than it did): then the
    others have as much less to give.
    """
    listed = [offer for offer in offers if offer.slots > 0]
    total = sum(offer.slots for offer in listed)
    left = total - sum(booked.values())
    free = sorted(
        ((offer.name, min(left, offer.slots - booked.get(offer.name, 0))) for offer in listed),
        key=lambda one: (-one[1], one[0]),
    )
    return world.Slots(total=total, free=tuple(one for one in free if one[1] > 0))
