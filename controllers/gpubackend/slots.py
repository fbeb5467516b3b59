"""The book of GPU slots: what the Ready GPU backends offer, minus what is booked. Pure.

Source: blueprint section 4 "a GPU slot (from GpuBackend)"; a slot is one of a backend's `numParallel`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controllers.pendingtask import world


@dataclass(frozen=True, slots=True)
class Offer:
    """One backend's slots.

    slots   may be booked: zero unless it is a Ready GPU that is not draining
    absent  it had so many until a moment ago, and is expected back: there is a GPU, and none of its slots is free
    """

    name: str
    slots: int
    absent: int = 0


def count(offers: Iterable[Offer], booked: Mapping[str, int], without_gpu: int = 0) -> world.Slots:
    """The free slots, emptiest backend first. A booking without a known backend takes one from the common total.

    `booked` counts by backend, "" is a run without a slot. One backend may be booked beyond what it offers (it offers
    less than it did): then the others have as much less to give. Without any GPU so many runs as `without_gpu` may go.
    """
    offers = list(offers)
    listed = [offer for offer in offers if offer.slots > 0]
    total = sum(offer.slots + offer.absent for offer in offers)
    if not total:
        return world.Slots(without_gpu=max(0, without_gpu - booked.get("", 0)))
    left = sum(offer.slots for offer in listed) - sum(booked.values())
    free = sorted(
        ((offer.name, min(left, offer.slots - booked.get(offer.name, 0))) for offer in listed),
        key=lambda one: (-one[1], one[0]),
    )
    return world.Slots(total=total, free=tuple(one for one in free if one[1] > 0))
