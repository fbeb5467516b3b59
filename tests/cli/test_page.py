"""docs/cli.md and the other pages name no command and no flag that there is not, and leave out no command."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer import main as typer

from cli import __main__ as main
from cli import output, reading
from cli.knowledge import __main__ as knowledge
from cli.views import queue, story, waiting
from contracts.api import queue_api
from tests.cli import objects
from tests.cli.test_views import answer, read, told

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text()
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "charts/**/*.md", "charts/**/NOTES.txt", "examples/**/*.*")
    for path in ROOT.glob(pattern)
    if "__pycache__" not in path.parts
)
_PROGRAMS = {"kubectl jervis": main.application, "jervis-kb": knowledge.application}
_CALL = re.compile(r"(kubectl jervis|jervis-kb)((?: [^\s`|;&]+)*)")


@functools.cache
def group(program: str) -> Any:
    return typer.get_command(_PROGRAMS[program]())


def options(command: Any) -> set[str]:
    """Its flags, and those of the commands below it."""
    own = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts) if flag.startswith("-")}
    return own.union(*(options(one) for one in getattr(command, "commands", {}).values()))


def quoted() -> Iterator[tuple[str, str, str]]:
    """(page, program, the words behind it): of commands in blocks and in the text."""
    for path in PAGES:
        for program, rest in _CALL.findall(path.read_text()):
            yield path.relative_to(ROOT).as_posix(), program, rest.strip()


def complete() -> Iterator[tuple[str, list[str]]]:
    """(program, arguments) of the lines that a reader types, from blocks of every page."""
    for path in PAGES:
        for line in path.read_text().replace("\\\n", " ").splitlines():
            typed = re.match(r"^(?:\$ |    )(kubectl jervis|jervis-kb) (.*)", line)
            if typed:
                words = shlex.split(typed[2], comments=True)
                ends = [number for number, word in enumerate(words) if word in ("|", "&", "&&", ";")]
                yield typed[1], words[: ends[0]] if ends else words


TYPED = list(complete())


@pytest.mark.parametrize(("program", "words"), TYPED, ids=[" ".join(words)[:60] for _, words in TYPED])
def test_what_a_reader_types_is_understood(program: str, words: list[str]) -> None:
    command = group(program)
    name = words[0]
    if name in command.commands:
        # Parsed in full: arguments that are missing, values of the wrong kind and unknown flags raise.
        command.commands[name].make_context(name, list(words[1:]))
    else:
        assert set(words) <= options(command), words


def test_there_is_something_to_read() -> None:
    assert len(TYPED) >= 15
    assert {words[0] for _, words in TYPED} >= {"queue", "get", "submit", "answer", "retry", "history", "result"}


def test_commands_and_flags_in_the_text_are_there() -> None:
    for page, program, rest in quoted():
        words = rest.split()
        if not words or not re.fullmatch(r"[a-z]+[.,:)]*", words[0]):
            continue
        verb = words[0].rstrip(".,:)")
        commands = group(program).commands
        if verb not in commands:
            # `kubectl jervis takes ...`: a sentence goes on.
            assert f"`{program} {verb}" not in (ROOT / page).read_text(), f"{page}: {program} {verb}"
            continue
        command = commands[verb]
        for word in words[1:]:
            command = getattr(command, "commands", {}).get(word, command)
            if re.fullmatch(r"--?[a-z][a-z-]*", word):
                assert word in options(command), f"{page}: {program} {verb} {word}"


def test_the_page_has_each_command_and_no_other() -> None:
    table = PAGE.split("| command | does |")[1].split("\n\n")[0]
    named = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|(.*)\|$", table, re.MULTILINE)
    commands = group("kubectl jervis").commands
    listed = [re.findall(r"`([a-z]+)", head) for head, _ in named]
    assert sorted(verb for verbs in listed for verb in verbs) == sorted(commands)
    for verbs, (head, does) in zip(listed, named, strict=True):
        for flag in re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", f"{head} {does}"):
            assert any(flag in options(commands[verb]) for verb in verbs), f"{verbs}: {flag}"


def test_the_page_has_each_option_that_a_command_needs_and_where_its_client_comes_from() -> None:
    table = PAGE.split("| command | does |")[1].split("\n\n")[0]
    commands = group("kubectl jervis").commands
    needed = {
        (verb, flag): any(flag in head for head in re.findall(rf"`{verb} [^`]*`", table))
        for verb, command in commands.items()
        for one in command.params
        if one.required and one.param_type_name == "option" and not one.envvar
        for flag in one.opts
    }
    assert needed
    assert all(needed.values()), needed
    read = sorted(verb for verb, command in commands.items() for one in command.params if one.envvar == "JERVIS_CLIENT")
    said = re.search(r"`JERVIS_CLIENT` .*?`--client` \(of (.*?) alone", " ".join(PAGE.split()))
    assert said
    assert re.findall(r"`([a-z]+)`", said[1]) == read


def test_flags_of_the_page_are_flags_of_some_command() -> None:
    every = {flag for one in group("kubectl jervis").commands.values() for flag in options(one)}
    beside = {"--install-completion", "--from"}
    for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"(?m)^\$ kubectl (?!jervis).*$", "", PAGE)):
        assert flag in every | beside, flag


def test_the_queues_of_the_page_are_what_the_command_draws() -> None:
    fresh = told(
        "disk-a4197613", queue_api.Reason.USERS_ACTIVE, position=1, clientId="greenhouse", since=objects.at(-3)
    )
    said = answer(fresh, slots={"total": 2, "free": 1}, background={"pending": 1, "oldest": objects.at(-3)})
    plants = {"phase": "Orchestrating", "dispatch": {"backend": "jervis-ollama-gpu"}}
    later = {"phase": "Scheduled", "scheduledFor": objects.at(43 * 86400 + 60)}
    chat = {"type": "UserInputProcessing", "clientId": "greenhouse"}
    tasks = [
        reading.line(
            objects.task("disk-a4197613", spec={"clientId": "greenhouse"}, status={"phase": "ReadyForGpu"}, age=3)
        ),
        reading.line(objects.task("plants", spec=chat, status=plants, age=4)),
        reading.line(objects.task("mail-capacity-233846", spec={"clientId": "demo"}, status=later, age=348)),
    ]
    drawn = output.plain(queue.draw(tasks, objects.NOW, namespaces=False, reported=said))
    assert f"$ kubectl jervis queue --all\n{drawn}{waiting.summary(said, objects.NOW)}\n" in PAGE

    no_slot = queue_api.Reason.NO_FREE_SLOT
    first = told("mail-31", no_slot, position=1, since=objects.at(-250))
    second = told("mail-32", no_slot, position=3, before=2, beforeOwn=["mail-31"], since=objects.at(-240))
    third = told(
        "wiki-9", queue_api.Reason.POSTPONED, clientId="globex", since=objects.at(-95), notBefore=objects.at(42)
    )
    said = answer(first, second, third, background={"pending": 3, "oldest": objects.at(-250)})
    drawn = output.plain(waiting.lines(said, objects.NOW))
    assert f"$ kubectl jervis queue\n{drawn}{waiting.summary(said, objects.NOW)}\n" in PAGE
    shown = output.plain(
        story.draw(read(objects.task("mail-32", status={"phase": "ReadyForGpu"})), objects.NOW, second)
    )
    where = "\n".join(line for line in shown.splitlines() if line.startswith(("Phase", "Waits")))
    assert f"...\n{where}\n...\n" in PAGE
