"""The knowledge base: what agents look up in it, and what they add.

Evidence that a hard rule keeps back is not shown. The graph does not say which sources its relationships are from, so
where a rule keeps sources back it is not walked at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, JsonValue, StringConstraints

from contracts.rules import enforce_lines
from crds import access, approvals, permits, priority, scope
from kb import api
from kb import client as kb_client
from orchestrator_job import outcome
from orchestrator_job.effects import ledger_entries, trigger_words
from orchestrator_job.effects.tools import bounds, port, remote_effects
from orchestrator_job.effects.tools.connections import Line
from orchestrator_job.store import delegation_models

_MOST_CHUNKS = 1000
_MOST_PROCEDURES = 200
_SHOWN_PROCEDURES = 20
_BETWEEN = "\n\n"
_Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
_Urn = Annotated[str, Field(min_length=1, max_length=1024)]
_Kind = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$")]


@dataclass(frozen=True, slots=True)
class Means:
    """The client, as whom it asks, and the rules of the scope. `task_uid` is named in what is proposed."""

    kb: kb_client.Client
    viewer: scope.Scope
    rules: enforce_lines.Provisions
    urgency: priority.Priority
    task_uid: str


class SearchKnowledge(port.Arguments):
    """`sources` are source URNs, or beginnings of them that end with `*`; `kinds` are kinds of documents, as in
    `email`."""

    query: Annotated[_Text, Field(max_length=2000)]
    sources: Annotated[tuple[_Urn, ...], Field(max_length=10)] = ()
    kinds: Annotated[tuple[_Kind, ...], Field(max_length=10)] = ()
    limit: Annotated[int, Field(ge=1, le=20)] = 8


class ReadSource(port.Arguments):
    """`start` is the first character that is wanted; `kind`, where it is known, spares a search."""

    source_urn: _Urn
    kind: _Kind | None = None
    start: Annotated[int, Field(ge=0)] = 0


class Related(port.Arguments):
    """`keys` are those of nodes, as in `person::eve` or `jira::ABC-1`."""

    keys: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=1024)], ...], Field(min_length=1, max_length=5)]
    hops: Annotated[int, Field(ge=1, le=3)] = 1


class Nothing(port.Arguments):
    """No arguments."""


class StoreKnowledge(port.Arguments):
    """A fact in a sentence or two, in the user's own words."""

    subject: Annotated[_Text, Field(max_length=200), Line]
    content: Annotated[_Text, Field(max_length=20_000)]
    category: api.Category = api.Category.GENERAL


class ReadProcedures(port.Arguments):
    """`about` are words of the trigger; without any all are given."""

    about: Annotated[str, StringConstraints(strip_whitespace=True, max_length=200)] = ""


class Step(port.Arguments):
    """Which agent does what, with which parameters, such as the tracker or a limit."""

    agent: Annotated[_Text, Field(max_length=60), Line]
    action: Annotated[_Text, Field(max_length=2000)]
    parameters: Annotated[
        dict[Annotated[_Text, Field(max_length=100), Line], str | int | float | bool], Field(max_length=20)
    ] = Field(default_factory=dict)


class ProposeProcedure(port.Arguments):
    """How tasks of a pattern are done for this client from now on."""

    trigger_pattern: Annotated[_Text, Field(max_length=200), Line]
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=50)]


class ProposeRule(port.Arguments):
    """A hard rule for this scope, in words; lines that begin with `enforce:` are enforced by the program."""

    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    type: api.RuleType = api.RuleType.CUSTOM
    content: Annotated[_Text, Field(max_length=20_000)]
    description: Annotated[str, Field(max_length=2000)] = ""


class _Reading:
    def __init__(self, means: Means) -> None:
        self._means = means

    async def read(self, given: Any, place: port.Place) -> port.Result:
        """Raises `kb_client.Unavailable`."""
        try:
            return await self.found(given)
        except kb_client.Rejected as error:
            outcome.recheck(error)
            return bounds.failed(error)

    async def found(self, given: Any) -> port.Result:
        """The answer. Raises what the knowledge base raises."""
        raise NotImplementedError


class Search(_Reading):
    """Evidence for a question, best first."""

    name = "search_knowledge"
    description = "Search the knowledge base: passages of mails, issues, documents, commits, meetings, with sources."
    arguments = SearchKnowledge

    async def found(self, given: SearchKnowledge) -> port.Result:
        """Passages, numbered."""
        means = self._means
        asked = api.RetrieveRequest(
            scope=means.viewer,
            query=given.query,
            max_results=given.limit,
            sources=list(given.sources) or None,
            kinds=list(given.kinds) or None,
        )
        reply = await means.kb.retrieve(asked, urgency=means.urgency)
        shown = [one for one in reply.items if means.rules.shows(one.provenance.source_urn, one.provenance.kind)]
        if not shown:
            return port.Result("Nothing was found.", {"found": 0})
        passages, parts, at = list[str](), list[port.Part](), 0
        for number, one in enumerate(shown, 1):
            passages.append(_passage(number, one))
            of = one.provenance
            parts.append(port.Part(of.source_urn, at, at + len(passages[-1]), of.access or access.UNKNOWN))
            at += len(passages[-1]) + len(_BETWEEN)
        if not reply.sufficient:
            passages.append("[The passages contain few of the question's words.]")
        urns = tuple(dict.fromkeys(one.provenance.source_urn for one in shown))
        text = bounds.cut(_BETWEEN.join(passages))
        return port.Result(text, {"found": len(shown)}, sources=urns, parts=tuple(parts))


def _passage(number: int, item: api.EvidenceItem) -> str:
    of = item.provenance
    when = f", {of.observed_at:%Y-%m-%d}" if of.observed_at is not None else ""
    past = f", replaced {of.valid_until:%Y-%m-%d}" if of.valid_until is not None else ""
    page = f", {of.paged}" if of.paged else ""
    return f"[{number}] {of.title} ({of.kind or 'document'}{page}{when}{past})\nsource: {of.source_urn}\n{item.content}"


class Read(_Reading):
    """A document as a whole, part by part."""

    name = "read_source"
    description = "Read a document of the knowledge base by its source URN, from a character on."
    arguments = ReadSource

    async def found(self, given: ReadSource) -> port.Result:
        """A part of the text."""
        means, kind = self._means, given.kind
        if kind is None:
            asked = api.HybridRequest(scope=means.viewer, query=given.source_urn, sources=[given.source_urn], limit=1)
            hits = (await means.kb.looking.search(asked, urgency=means.urgency)).hits
            kind = hits[0].chunk.kind if hits else ""
        reply = None
        if kind and means.rules.shows(given.source_urn, kind):
            reply = await means.kb.looking.by_kind(
                api.ByKindRequest(scope=means.viewer, kinds=[kind], sources=[given.source_urn], limit=_MOST_CHUNKS)
            )
        if reply is None or not reply.chunks:
            return bounds.failed(f"There is no document {given.source_urn!r}. Use a source that a search answered.")
        return part(reply.chunks, given.start, truncated=reply.truncated)


def part(chunks: list[api.Chunk], start: int, *, truncated: bool = False) -> port.Result:
    """The text of a document's chunks from character `start` on, as much as an answer may have."""
    text, first = joined(chunks), chunks[0]
    end = min(start + bounds.MOST_CHARS, len(text))
    shown = text[start:end] or "[The document ends before.]"
    if end < len(text):
        shown += f"\n[Characters {start} to {end} of {len(text)}. Go on with start={end}.]"
    elif truncated:
        shown += "\n[The document has more parts than are read.]"
    data: dict[str, JsonValue] = {
        "title": first.title,
        "kind": first.kind,
        "characters": len(text),
        "start": start,
        "end": end,
    }
    found = f"{first.title} ({first.kind})\n\n{shown}"
    of = port.Part(first.source_urn, 0, len(found), first.access or access.UNKNOWN)
    return port.Result(found, data, sources=(first.source_urn,), parts=(of,))


def joined(chunks: list[api.Chunk]) -> str:
    """The text of all chunks; what stood between two of them is blank."""
    text, end = "", 0
    for one in sorted(chunks, key=lambda each: each.start):
        text += ("\n" * min(max(one.start - end, 0), 2) if text else "") + one.text[max(end - one.start, 0) :]
        end = max(end, one.end)
    return text


class Relations(_Reading):
    """What the graph says around some nodes."""

    name = "related"
    description = "What the knowledge graph relates to nodes: people, projects, issues, files and how they belong."
    arguments = Related

    async def found(self, given: Related) -> port.Result:
        """One relationship in a line."""
        means = self._means
        if not means.rules.shows_all:
            return bounds.failed("A hard rule keeps sources back, so the graph is not walked. Search instead.")
        asked = api.TraverseRequest(scope=means.viewer, start=list(given.keys), hops=given.hops, fan_out=30, limit=100)
        reply = await means.kb.looking.traverse(asked)
        lines = [
            f"{one.source} {one.type} {one.target}" + (" (no longer)" if one.retired_at is not None else "")
            for one in reply.edges
        ]
        if not lines:
            return port.Result("The graph relates nothing to these keys.", {"edges": 0})
        if reply.truncated:
            lines.append("[There are more.]")
        return port.Result(bounds.cut("\n".join(lines)), {"edges": len(reply.edges)})


class UserContext(_Reading):
    """What is known about the user."""

    name = "user_context"
    description = "What is known about the user: preferences, domain, team, tech stack, personal, general."
    arguments = Nothing

    async def found(self, given: Nothing) -> port.Result:
        """By category."""
        known = await self._means.kb.memory.user(self._means.viewer)
        sections = []
        for one in api.Category:
            lines = known.categories.get(one.value, [])
            if lines and self._means.rules.shows("", one.kind):
                sections.append(f"### {one.heading}\n" + "\n".join(lines))
        return port.Result(bounds.cut("\n\n".join(sections)) if sections else "Nothing is known about the user.")


class _Stored:
    """A `ledger_entries.Effect` on the knowledge base, where the same said twice is the same as once."""

    repeatable = True

    def __init__(self, intent: Mapping[str, Any], store: remote_effects.Build) -> None:
        self._intent, self._store = intent, store

    def intent(self) -> Mapping[str, Any]:
        """What is stored, without its text."""
        return self._intent

    async def find(self, key: str) -> ledger_entries.Receipt | None:
        """Not asked: it is repeated."""
        return None

    async def perform(self, key: str) -> ledger_entries.Receipt:
        """Raises `kb_client.Unavailable`."""
        try:
            return dict(await self._store())
        except kb_client.Rejected as error:
            outcome.recheck(error)
            return remote_effects.refused(error)


class Store:
    """A fact for every later conversation. Carried out at once where the user said subject and content; what a document
    or the model says is for a person to decide about, because it would be believed from then on."""

    name = "store_knowledge"
    description = "Remember a fact that the user said, for all later conversations. Not what is known already."
    arguments = StoreKnowledge
    tier = port.Tier.PERMIT

    def __init__(self, means: Means) -> None:
        self._means = means

    def aims(self, given: StoreKnowledge) -> Mapping[str, str]:
        """Both texts."""
        return {"subject": given.subject, "content": given.content}

    def reach(self, given: StoreKnowledge) -> port.Reach:
        """It is stored in the run's own scope, so no text leaves."""
        return port.Reach(permits.tool_name(self.name))

    def shown(self, given: StoreKnowledge) -> str:
        """All of it."""
        return f"Remember ({given.category.heading}) about {given.subject}:\n\n{given.content}"

    def effect(self, given: StoreKnowledge, place: port.Place) -> ledger_entries.Effect:
        """Said again it is the same document."""

        async def store() -> Mapping[str, Any]:
            said = api.Knowledge(
                scope=self._means.viewer, subject=given.subject, content=given.content, category=given.category
            )
            reply = await self._means.kb.learning.store(said, urgency=self._means.urgency)
            return {"text": f"Remembered: {given.subject}.", "sources": [reply.source_urn]}

        return _Stored({"tool": self.name, "category": given.category.value}, store)


class Procedures(_Reading):
    """How tasks are done for this client: what a user defined first."""

    name = "read_procedures"
    description = "The procedures of this client: for which tasks, and which agent does what in which order."
    arguments = ReadProcedures

    async def found(self, given: ReadProcedures) -> port.Result:
        """Those whose trigger has one of the words."""
        viewer = self._means.viewer
        if viewer.is_global:
            return port.Result("There are no procedures here: they are those of a client.", {"found": 0})
        every = await self._means.kb.memory.procedures(viewer.client_id, limit=_MOST_PROCEDURES, viewer=viewer)
        wanted = trigger_words.tokens(given.about)
        kept = [one for one in every if not wanted or trigger_words.shares(one.trigger_pattern, wanted)]
        if not kept:
            return port.Result("There is no such procedure.", {"found": 0})
        shown = [_procedure(one) for one in kept[:_SHOWN_PROCEDURES]]
        if len(kept) > len(shown):
            shown.append(f"[{len(kept) - len(shown)} more. Ask about one of them.]")
        return port.Result(bounds.cut("\n\n".join(shown)), {"found": len(kept)})


class Procedure:
    """A procedure of the client, beside those that a person defined, which come first and are not replaced."""

    name = "propose_procedure"
    description = "Propose how tasks of a pattern are to be done from now on. A person decides."
    arguments = ProposeProcedure
    tier = port.Tier.PERSON

    def __init__(self, means: Means) -> None:
        self._means = means

    def aims(self, given: ProposeProcedure) -> Mapping[str, str]:
        """The pattern."""
        return {"triggerPattern": given.trigger_pattern}

    def reach(self, given: ProposeProcedure) -> port.Reach:
        """Nothing leaves."""
        return port.Reach(permits.tool_name(self.name))

    def shown(self, given: ProposeProcedure) -> str:
        """All steps."""
        steps = [f"{number}. {_step(one)}" for number, one in enumerate(given.steps, 1)]
        return "\n".join([f"Tasks like {given.trigger_pattern!r} are done so from now on:", *steps])

    def effect(self, given: ProposeProcedure, place: port.Place) -> ledger_entries.Effect:
        """Of the same client and pattern it is replaced by itself."""

        async def store() -> Mapping[str, Any]:
            steps = [api.Step.model_validate(one.model_dump()) for one in given.steps]
            draft = api.ProcedureDraft(
                client_id=self._means.viewer.client_id, trigger_pattern=given.trigger_pattern, procedure_steps=steps
            )
            saved = await self._means.kb.memory.save_procedure(draft)
            return {"text": f"Saved as procedure {saved.id}.", "id": saved.id}

        return _Stored({"tool": self.name, "triggerPattern": given.trigger_pattern}, store)


class Rule:
    """A rule of exactly the run's scope, whose key begins with `learned.`."""

    name = approvals.PROPOSES_RULE
    description = "Propose a hard rule for this scope. A person decides."
    arguments = ProposeRule
    tier = port.Tier.PERSON

    def __init__(self, means: Means) -> None:
        self._means = means

    def aims(self, given: ProposeRule) -> Mapping[str, str]:
        """The key. Raises `port.Misused` for a line that cannot be enforced."""
        try:
            enforce_lines.of(given.content)
        except ValueError as error:
            raise port.Misused(f"{self.name}: content: {error}") from error
        return {"key": given.key}

    def reach(self, given: ProposeRule) -> port.Reach:
        """Nothing leaves."""
        return port.Reach(permits.tool_name(self.name))

    def shown(self, given: ProposeRule) -> str:
        """The rule as it would be in force."""
        about = f"\n({given.description})" if given.description else ""
        return f"From now on this holds as rule {api.LEARNED}{given.key} ({given.type}):{about}\n\n{given.content}"

    def effect(self, given: ProposeRule, place: port.Place) -> ledger_entries.Effect:
        """The same rule again makes no new version."""

        async def store() -> Mapping[str, Any]:
            means = self._means
            draft = api.RuleDraft(
                scope=means.viewer, rule_key=api.LEARNED + given.key, rule_type=given.type, rule_content=given.content,
                description=given.description, created_by=f"task {means.task_uid}, approved by a person",
            )  # fmt: skip
            made = await means.kb.rules.put(draft)
            return {"text": f"Rule {made.rule_key} is in force, version {made.version}.", "version": made.version}

        return _Stored({"tool": self.name, "key": given.key}, store)


def _step(one: Step | delegation_models.ProcedureStep) -> str:
    parameters = ", ".join(f"{name}: {value}" for name, value in one.parameters.items())
    return f"{one.agent}: {one.action}" + (f" ({parameters})" if parameters else "")


def _procedure(one: api.Procedure) -> str:
    whose = "defined by a user" if one.source == "user_defined" else "learned or proposed"
    used = f"used {one.usage_count} times, {one.success_rate:.0%} well" if one.usage_count else "not used yet"
    made = [delegation_models.ProcedureStep.model_validate(step) for step in one.procedure_steps]
    steps = [f"{number}. {_step(step)}" for number, step in enumerate(made, 1)]
    return "\n".join([f"{one.trigger_pattern!r}, {whose}, {used}:", *steps])


def all_of(means: Means) -> list[port.Tool]:
    """The tools of this module; without `search` where a rule forbids it."""
    found: list[port.Tool] = [UserContext(means), Store(means), Procedures(means), Procedure(means), Rule(means)]
    if means.rules.permits_tool("search"):
        found += [Search(means), Read(means), Relations(means)]
    return found
