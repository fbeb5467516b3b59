"""Where the arguments of an effect come from that are neither aims nor texts: attachments, the mail that is answered,
and when an invitation is for. Pure.

- What is attached was stored by the run itself, belongs to the task, or is named by the user by its key.
- An answer names the task's own mail, one that the user names, or one whose sender it goes to, with what that answers.
- An invitation is on a date that the order names; where that names none, the user or else the task's document does. Its
  times are those that the user names; where none is named, they are left to the model, and may not be retrieved.
"""

from __future__ import annotations

import functools
import re
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import time, timedelta

from orchestrator_job.effects.permits import moments, orders, seen_texts, threads, words
from orchestrator_job.effects.tools import port

_TELLING = 4
"""Characters of a part of a Message-ID that is not found in a text by chance."""
_DAY = timedelta(days=1)
_USUAL = (timedelta(minutes=30), timedelta(hours=1))
"""How long a model may have an event take although a retrieved text names the time of its end."""
_TIME = r"(?:time|timezone|zone|zeit|ortszeit|zeitzone|čas\w*|zón\w*|pásm\w*)"


def objection(
    wanted: port.Wanted,
    aims: Mapping[str, str],
    matching: Sequence[orders.Order],
    known: seen_texts.SeenTexts,
) -> str:
    """Which argument a person has to see, and why, in a sentence; "" without any. `matching` are the orders of the
    call, whose aims are `aims`."""
    for name, key in wanted.stored.items():
        kept = [one for one in known.stored if one.key == key]
        if not kept and not known.user.whole.names(words.name(key) or ()):
            return f"{name} ({key[:100]!r}) is nothing that this task has stored, and the user has not named it."
        prefix = name.removesuffix("key")
        for label, value in ((one, value) for one, value in wanted.labels.items() if one.startswith(prefix)):
            said = words.split(value)
            own = known.user.whole.names(said) or any(value in (one.name, one.media_type) for one in kept)
            if not own and any(one.whole.names(said) for one in known.others):
                return f"{label} ({value[:100]!r}) comes from a text that was retrieved."
    recipients = {aim.casefold() for name, aim in aims.items() if name.partition(".")[0] in ("to", "cc", "bcc")}
    for name, message_id in wanted.answered.items():
        if not _answers(threads.plain(message_id), recipients, known):
            return f"{name} ({message_id[:100]!r}) comes from a text that was retrieved, and is no mail of a recipient."
    return _timed(wanted.span, matching, known) if wanted.span is not None else ""


def _answers(identity: str, recipients: set[str], known: seen_texts.SeenTexts) -> bool:
    if identity in known.thread or any(map(known.user.whole.names, threads.names(identity))):
        return True
    headings = [one.heading for one in known.retrieved]
    if any(identity in one.ids and one.senders & recipients for one in headings):
        return True
    # One that the model has thought of belongs to no mail; one that was put together from a text may.
    parts = [(part,) for part in identity.split("@") if len(part) >= _TELLING]
    everything = [(identity,), *parts, *threads.names(identity)]
    return not any(text.whole.names(part) for text in known.others for part in everything)


# --- when an invitation is for ---------------------------------------------------------------------------------------


def _timed(span: port.Span, matching: Sequence[orders.Order], known: seen_texts.SeenTexts) -> str:
    dates = _named(lambda one: one.dated, matching, known)
    # "Friday, 13 March" is one date.
    dates = [one for one in dates if one.explicit] or dates
    if not any(one.falls(span.start.date(), known.today) for one in dates):
        return (
            f"event.start ({span.start:%Y-%m-%d}) is no date that the user or the task names, as far as code can tell."
        )
    ends = span.end.date()
    midnight = span.end.time() == time() and ends == span.start.date() + _DAY
    if ends != span.start.date() and not midnight and not any(one.falls(ends, known.today) for one in dates):
        return f"event.end ({span.end:%Y-%m-%d}) is no date that the user or the task names, as far as code can tell."
    return _clocked(span, matching, known) or _zoned(span.zone, known)


def _named(
    of: Callable[[moments.Mention], bool], matching: Sequence[orders.Order], known: seen_texts.SeenTexts
) -> list[moments.Mention]:
    """What the order names of it; else all that the user says, else the task's document."""
    said = [one for one in known.user.moments if of(one)]
    ordered = [one for one in said if any(order.text.names(one.said) for order in matching)]
    return ordered or said or [one for text in known.content for one in text.moments if of(one)]


def _clocked(span: port.Span, matching: Sequence[orders.Order], known: seen_texts.SeenTexts) -> str:
    start, end = span.start.time(), span.end.time()
    named = _named(lambda one: bool(one.times), matching, known)
    allowed = _times(named)
    if allowed and start not in allowed:
        return f"event.start ({start:%H:%M}) is no time that the user or the task names."
    retrieved = _times(one for text in known.retrieved for one in text.moments)
    if not allowed and start in retrieved and start != time():
        return f"event.start ({start:%H:%M}) comes from a text that was retrieved."
    lengths = {one.minutes for one in _named(lambda one: bool(one.minutes), matching, known)}
    if end in allowed or span.end - span.start in {timedelta(minutes=one) for one in lengths}:
        return ""
    if lengths or len(named) > 1:
        return f"event.end ({end:%H:%M}) is no time that the user or the task names."
    usual = span.end - span.start in _USUAL
    return f"event.end ({end:%H:%M}) comes from a text that was retrieved." if end in retrieved and not usual else ""


def _times(mentions: Iterable[moments.Mention]) -> frozenset[time]:
    return frozenset(one for mention in mentions for one in mention.times)


@functools.cache
def _zones() -> tuple[tuple[str, ...], ...]:
    """The zones by whose names a user can say one."""
    known = zoneinfo.available_timezones()
    return tuple(tuple(words.split(one)) for one in sorted(known) if "/" in one or one in ("UTC", "GMT"))


def _timed_by(city: Sequence[str], text: str) -> bool:
    """Whether a text speaks of the time of a city."""
    where, plain = r"\W+".join(map(re.escape, city)), text.casefold()
    return any(
        re.search(rf"\b{first}\W+(?:\w+\W+){{0,2}}{second}\b", plain) is not None
        for first, second in ((where, _TIME), (_TIME, where))
    )


def _zoned(zone: str, known: seen_texts.SeenTexts) -> str:
    """The zone is left to the model where the user names none, and may not be a retrieved one."""
    own = known.user.whole
    said = tuple(words.split(zone))
    if own.names(said):
        return ""
    if any(map(own.names, _zones())):
        return f"event.timeZone ({zone}) is not the time zone that the user names."
    city = words.split(zone.rpartition("/")[2].replace("_", " "))
    named = any(one.whole.names(said) for one in known.retrieved)
    if named or (not own.names(city) and any(_timed_by(city, one.text) for one in known.retrieved)):
        return f"event.timeZone ({zone}) comes from a text that was retrieved."
    return ""
