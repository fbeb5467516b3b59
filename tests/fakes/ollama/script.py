"""Answers written beforehand: prompt tag -> a list that is used up in order.

    job.respond/v1:
      - {answer: "Friday [1].", citations: [1], confidence: 0.9, needsInput: false, questions: []}
      - fault: {status: {code: 503, retryAfter: 1}}
      - "plain text"
    kb.hints/v2:
      - {when: "Title: Scan 0007", answer: "I cannot read this."}

    kb.qualify.tools/v1:
      - {toolCalls: [{name: routeTask, arguments: {routing: DONE, reason: r}}]}

    job.agent.Git/v1:
      - {toolCalls: [{name: push_branch, arguments: {commit: COMMIT}}], fill: {COMMIT: "Committed: ([0-9a-f]{40})"}}

`fill` puts into a call what the messages of the request say: the last match's group of each pattern, for the word.

An object is sent as JSON, a string as it is, `{fault: ...}` is a fault without a match. A tag that the script does not
name is answered by the rules; the tag `*` catches all the others. When a tag's list is used up, the next request
fails: a test that asks once more than it said must not get an answer.

An entry with `when` is not used up: it answers each request of its tag whose messages contain that text, or all of a
list of texts. A tag that has such entries only leaves all other requests to the rules.
"""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass
from typing import Any

from tests.fakes.ollama import faults


class Exhausted(Exception):  # noqa: N818 -- the contract calls it that
    """The script has no answer left for this tag."""

    def __init__(self, tag: str) -> None:
        super().__init__(f"script exhausted for tag {tag}")


@dataclass(frozen=True)
class Calls:
    """Calls of tools in the place of a text, each {name, arguments}."""

    made: tuple[dict[str, Any], ...]
    fill: tuple[tuple[str, re.Pattern[str]], ...] = ()

    def filled(self, text: str) -> Calls:
        """For a request whose messages are `text`. A pattern that is not there leaves its word as it is."""
        written = json.dumps(self.made)
        for word, pattern in self.fill:
            for found in pattern.findall(text)[-1:]:
                written = written.replace(word, found)
        return Calls(tuple(json.loads(written)))


_Said = str | faults.Fault | Calls


@dataclass(frozen=True)
class Standing:
    """An answer to every prompt that contains all of `when`."""

    when: tuple[str, ...]
    answer: _Said


_Entry = _Said | Standing


class Script:
    """What is left of the script."""

    def __init__(self, answers: dict[str, list[_Entry]]) -> None:
        self._standing = {
            tag: [one for one in entries if isinstance(one, Standing)] for tag, entries in answers.items()
        }
        self._left = {
            tag: deque(one for one in entries if not isinstance(one, Standing))
            for tag, entries in answers.items()
            if not entries or not all(isinstance(one, Standing) for one in entries)
        }

    def take(self, tag: str | None, text: str = "") -> _Said | None:
        """The answer for this tag to a prompt of this text; None if the script does not speak about it.

        Raises Exhausted.
        """
        for standing in self._standing.get(tag or "", ()):
            if all(one in text for one in standing.when):
                return _filled(standing.answer, text)
        key = tag if tag in self._left else "*"
        if key not in self._left or key is None:
            return None
        if not self._left[key]:
            raise Exhausted(tag or "(none)")
        return _filled(self._left[key].popleft(), text)

    def left(self) -> dict[str, int]:
        """How many answers each tag still has."""
        return {tag: len(entries) for tag, entries in self._left.items()}


def parse(document: object) -> Script:
    """A mapping of tags to lists. ValueError names the tag that is wrong."""
    if not isinstance(document, dict):
        raise ValueError("script: expected an object {prompt tag: [answers]}")
    for tag, entries in document.items():
        if not isinstance(entries, list):
            raise ValueError(f"script: the answers of {tag!r} must be a list")
    return Script({str(tag): [_entry(str(tag), entry) for entry in entries] for tag, entries in document.items()})


def _filled(said: _Said, text: str) -> _Said:
    return said.filled(text) if isinstance(said, Calls) else said


def _entry(tag: str, entry: Any) -> _Entry:
    if isinstance(entry, dict) and set(entry) == {"when", "answer"}:
        answer = _entry(tag, entry["answer"])
        when = entry["when"] if isinstance(entry["when"], list) else [entry["when"]]
        if not when or not all(isinstance(one, str) and one for one in when) or isinstance(answer, Standing):
            raise ValueError(f"script: {tag!r}: `when` must be a text that prompts contain, or a list of them")
        return Standing(tuple(when), answer)
    if isinstance(entry, str):
        return entry
    if isinstance(entry, dict) and {"toolCalls"} <= set(entry) <= {"toolCalls", "fill"}:
        if not isinstance(entry["toolCalls"], list) or not all(isinstance(one, dict) for one in entry["toolCalls"]):
            raise ValueError(f"script: {tag!r}: toolCalls must be a list of calls")
        try:
            fill = tuple((word, re.compile(pattern)) for word, pattern in entry.get("fill", {}).items())
        except (AttributeError, TypeError, re.error) as error:
            raise ValueError(f"script: {tag!r}: fill must be words with patterns: {error}") from error
        return Calls(tuple(entry["toolCalls"]), fill)
    if isinstance(entry, dict) and set(entry) == {"fault"}:
        try:
            return faults.Fault.model_validate(entry["fault"])
        except ValueError as error:
            raise ValueError(f"script: {tag!r}: {error}") from error
    return json.dumps(entry, ensure_ascii=False)
