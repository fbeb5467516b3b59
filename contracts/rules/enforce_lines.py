"""The part of a hard rule that the program enforces, independently of the model. Pure.

A rule is text for the model (seed 002 "Hard Rules"). Its lines that begin with `enforce:` are provisions:

    enforce: never-use-source jira::SEC-*      evidence of this source (or of those that begin so) is not shown
    enforce: never-use-kind meeting            evidence of this kind is not shown
    enforce: never-say account number          an answer with these words, in any case and spacing, is not given
    enforce: always-say This is no legal advice.
    enforce: always-cite                       an answer without a citation is not given
    enforce: needs-approval                    an answer is given only after a person has approved it
    enforce: never-use-tool search             a run does without this tool: `search`, `ask`, one of its agents
    enforce: route InfoOnly when kind chat     where content goes: `contracts.rules.routing`
    enforce: read-as Jira when source shop::*  how a document is read: `contracts.rules.extraction`
    enforce: link Open when host *.example.com whether a link is opened: `contracts.rules.links`
    enforce: never-fetch *.intra.example.com   no page of this host is asked for; `*` stands for anything
    enforce: notify https://hooks.example.com/x on UserTask     who hears of a task: `contracts.rules.notices`
    enforce: never-call createRelationship     an atomic tool is not carried out: `contracts.rules.tools`
    enforce: fetch-only *.example.com          pages of other hosts than those of the rule's lines are not asked for
    enforce: permit tool=sendMail ...          an effect that needs no person: `contracts.rules.permits`
    enforce: time-zone Europe/Prague           days and hours are those of this zone: `contracts.rules.time_zones`
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from contracts.rules import extraction, links, notices, permits, routing, time_zones, tools
from crds import patterns
from crds.permits import Permit

NEVER_USE_TOOL = "never-use-tool"
NEEDS_WORDS = frozenset({"never-use-source", "never-use-kind", "never-say", "always-say"})
TOOLS = frozenset({"search", "ask"})
"""What a rule can forbid of all runs: a run that may not answer has no use."""
AGENT_TOOLS = frozenset(
    (
        *("search_knowledge", "read_source", "related", "store_knowledge", "propose_procedure", "propose_rule"),
        *("user_context", "code_where", "code_callers", "code_callees", "code_impact", "code_outline", "fetch_page"),
        "read_procedures",
        *("open_repository", "list_files", "read_file", "search_files", "write_file", "edit_file", "show_changes"),
        *("commit_changes", "run_command", "push_branch", "create_issue", "update_issue", "add_comment", "edit_page"),
        *("send_mail", "draft_event", "send_invitation", "cluster_state", "ci_status", "scan_secrets"),
        *("scan_dependencies", "calculate", "save_draft", "delegate"),
    )
)
"""Tools of the agents of runs (`orchestrator_job.agents`), which a rule can forbid one by one."""
LOOKING_TOOLS = frozenset({"colqwen_visual_search", "visual_interpretation"})
"""Those of the decision agent (`kb.agent`) that runs do not have."""
_SERVER_TOOL = re.compile(r"[a-z][a-z0-9-]{0,30}\.[a-z0-9._-]{1,64}")
"""A tool of a server of the Model Context Protocol."""
ALWAYS_CITE = "always-cite"
NEEDS_APPROVAL = "needs-approval"
_HOSTS = frozenset({"never-fetch", "fetch-only"})
_ALONE = frozenset({ALWAYS_CITE, NEEDS_APPROVAL})
_HOST = re.compile(r"[a-z0-9*_.:-]{1,253}")
_BEGINNING = "enforce:"
_PARSED: Mapping[str, Callable[[str], object]] = {
    **{verb: functools.partial(routing.parse, verb) for verb in routing.VERBS},
    **{verb: functools.partial(extraction.parse, verb) for verb in extraction.VERBS},
    notices.VERB: notices.parse,
    links.VERB: links.parse,
    tools.VERB: tools.parse,
    permits.VERB: permits.parse,
    time_zones.VERB: time_zones.parse,
}
"""Verbs with a grammar of their own, which raises ValueError."""
_KNOWN = ", ".join(sorted(NEEDS_WORDS | _ALONE | _HOSTS | _PARSED.keys() | {NEVER_USE_TOOL}))


@dataclass(frozen=True, slots=True)
class Provision:
    """One line: `verb` as listed above, `words` after it ("" for always-cite and needs-approval)."""

    verb: str
    words: str


def of(text: str) -> tuple[Provision, ...]:
    """The provisions of a rule's content. Raises ValueError for an unknown or incomplete line."""
    found = []
    for verb, words in _lines(text):
        name = verb.lower()
        if name in _PARSED:
            _checked(name, words)
            found.append(Provision(name, words))
        elif name in _HOSTS and words:
            found.append(Provision(name, _host(name, words)))
        elif name == NEVER_USE_TOOL and words:
            found.append(Provision(name, _tool(words)))
        elif name in _ALONE and not words:
            found.append(Provision(name, ""))
        elif name in NEEDS_WORDS and words:
            found.append(Provision(name, words))
        else:
            line = f"enforce: {verb} {words}".strip()
            raise ValueError(
                f"{line!r} is no provision; give one of {_KNOWN}, words after all but always-cite and needs-approval"
            )
    return tuple(found)


# The same few texts are asked for with every document.
@functools.lru_cache(maxsize=1000)
def routing_lines(text: str) -> tuple[routing.Ruling, ...]:
    """Those provisions of a rule's content that decide where content goes. Raises what `of` raises."""
    return tuple(routing.parse(one.verb, one.words) for one in of(text) if one.verb in routing.VERBS)


@functools.lru_cache(maxsize=1000)
def steered(text: str) -> tuple[extraction.Steer, ...]:
    """Those that say how a document is read. Raises what `of` raises."""
    return tuple(extraction.parse(one.verb, one.words) for one in of(text) if one.verb in extraction.VERBS)


def notified(text: str) -> tuple[notices.Notice, ...]:
    """Those that say who hears of a task. Raises what `of` raises."""
    return tuple(notices.parse(one.words) for one in of(text) if one.verb == notices.VERB)


def permitted(text: str) -> tuple[Permit, ...]:
    """Those that permit effects. Raises what `of` raises."""
    return tuple(permits.parse(one.words) for one in of(text) if one.verb == permits.VERB)


def linked(text: str) -> tuple[links.LinkRuling, ...]:
    """Those that decide about links. Raises what `of` raises."""
    return tuple(links.parse(one.words) for one in of(text) if one.verb == links.VERB)


def unaddressed(text: str) -> str:
    """A rule's content without addresses of webhooks, which may hold secrets and are for no model."""
    return "\n".join(line for line in text.split("\n") if not _enforced(line) or not _notifies(line))


def spoken(text: str) -> str:
    """A rule's content without the lines that the program enforces."""
    return "\n".join(line for line in text.split("\n") if not _enforced(line)).strip()


def unfetched(text: str, host: str) -> bool:
    """Whether a rule with this content forbids to ask for pages of `host`. Raises what `of` raises."""
    found, asked = of(text), hostname(host)
    only = [one.words for one in found if one.verb == "fetch-only"]
    never = [one.words for one in found if one.verb == "never-fetch"]
    return any(patterns.matches(one, asked) for one in never) or (
        bool(only) and not any(patterns.matches(one, asked) for one in only)
    )


@functools.lru_cache(maxsize=1000)
def barred(text: str) -> frozenset[str]:
    """The atomic tools that a rule with this content forbids. Raises what `of` raises."""
    lines = (one.words for one in of(text) if one.verb == tools.VERB)
    return frozenset(tool for words in lines for tool in tools.parse(words))


def hostname(host: str) -> str:
    """One way to write a host's name, be it that of a pattern: lower case, without a dot at its end, as DNS has it."""
    plain = routing.fold(host).strip("[]").rstrip(".")
    try:
        return plain if plain.isascii() else plain.encode("idna").decode()
    except UnicodeError:
        return plain


def _host(verb: str, words: str) -> str:
    host = hostname(words)
    if not _HOST.fullmatch(host) or host.count("*") > patterns.MOST_STARS:
        raise ValueError(
            f"{f'enforce: {verb} {words}'[:300]!r} cannot be enforced: give the name of one host, without scheme, port "
            "and path, such as www.example.com or *.example.com"
        )
    return host


def _tool(words: str) -> str:
    name = words.lower()
    if name not in TOOLS | AGENT_TOOLS | LOOKING_TOOLS and not _SERVER_TOOL.fullmatch(name):
        raise ValueError(
            f"{words[:100]!r} is no tool that a rule can forbid; give one of {', '.join(sorted(TOOLS))}, a tool of "
            "agents such as send_mail, or SERVER.TOOL"
        )
    return name


def _lines(text: str) -> Iterable[tuple[str, str]]:
    for line in text.split("\n"):
        if _enforced(line):
            verb, _, words = line.strip()[len(_BEGINNING) :].strip().replace("\t", " ").partition(" ")
            yield verb, words.strip()


def _enforced(line: str) -> bool:
    return line.strip()[: len(_BEGINNING)].lower() == _BEGINNING


def _notifies(line: str) -> bool:
    return any(verb.lower() == notices.VERB for verb, _ in _lines(line))


def _checked(verb: str, words: str) -> None:
    try:
        _PARSED[verb](words)
    except ValueError as error:
        raise ValueError(f"{f'enforce: {verb} {words}'[:300]!r} cannot be enforced: {error}") from None


@dataclass(frozen=True, slots=True)
class Provisions:
    """All provisions that apply, in the order of their rules."""

    all: tuple[Provision, ...] = ()

    @classmethod
    def together(cls, texts: Iterable[str]) -> Provisions:
        """The provisions of several rules."""
        return cls(tuple(one for text in texts for one in of(text)))

    @property
    def needs_approval(self) -> bool:
        """Whether a person has to approve an answer before it is given."""
        return any(one.verb == NEEDS_APPROVAL for one in self.all)

    @property
    def shows_all(self) -> bool:
        """Whether no evidence is kept back for its source or kind."""
        return not (self._words("never-use-kind") or self._words("never-use-source"))

    @property
    def time_zone(self) -> str:
        """The zone of the last rule that names one; "" without any."""
        return next(reversed(self._words(time_zones.VERB)), "")

    def shows(self, source_urn: str, kind: str) -> bool:
        """Whether evidence of this source and kind may be shown to a model."""
        return kind not in self._words("never-use-kind") and not any(
            source_urn.startswith(words[:-1]) if words.endswith("*") else source_urn == words
            for words in self._words("never-use-source")
        )

    def permits_tool(self, name: str) -> bool:
        """Whether a run may use the tool."""
        return name.lower() not in self._words(NEVER_USE_TOOL)

    def objection(self, said: str, *, cites: bool, final: bool = True) -> str | None:
        """Why the answer `said` must not be given; None when it may. A question to the user (not `final`) needs no
        citation."""
        spoken = _fold(said)
        for words in self._words("never-say"):
            if _fold(words) in spoken:
                return f"a rule forbids to say {words!r}"
        if not final:
            return None
        for words in self._words("always-say"):
            if _fold(words) not in spoken:
                return f"a rule asks every answer to say {words!r}"
        if not cites and any(one.verb == ALWAYS_CITE for one in self.all):
            return "a rule asks every answer to cite its evidence"
        return None

    def _words(self, verb: str) -> list[str]:
        return [one.words for one in self.all if one.verb == verb]


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()
