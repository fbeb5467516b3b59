"""The tools that look into the knowledge base: passages, code, and the hard rules; `graph_tool` has that of the graph.

What a hard rule keeps back (`never-use-source`, `never-use-kind`) is in no result.

Source: seed 004 "FastVectorSearchTool"; the others are beyond it.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, TypeVar

import pydantic
from pydantic import Field

from contracts.rules import enforce_lines
from crds import errors as root
from crds import scope
from kb import api, errors
from kb.agent import page_numbers
from kb.agent.environment import Error, Result
from kb.agent.tree import Chosen, Given, NoInputs, Status, TreeData
from kb.code import book, service
from kb.retrieve import search
from kb.visibility import governs

_Reply = TypeVar("_Reply", bound=pydantic.BaseModel)
SEARCH = "search"
"""By which name a rule forbids every look into the knowledge base (`contracts.rules.enforce_lines.TOOLS`)."""
_KEPT_BACK = 4
"""Times as many passages are looked at where a rule keeps some back."""
_MOST = 100
"""Passages of one call of the search."""
_PASSAGES = "text_results"
_OF_QUESTION = "passages of the question"
_DEPTH = 6
"""Times as many passages as a search gives are known of the asker's own question."""
_QUERY_CHARS = 2000
_RULE_CHARS = 4000


class Inputs(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", str_strip_whitespace=True)


class Query(Inputs):
    """Inputs of `fast_vector_search`."""

    query: str = Field(min_length=1, max_length=_QUERY_CHARS, description="What to look for, in words.")


class FastVectorSearchTool(Chosen):
    """Passages by vectors, keywords and hops of the graph: `limit` of them that it has not given yet, also before a
    summary.

    A further search finds mostly what the first one has found, and would add nothing to it. What is not there yet comes
    in turns from its own query and from the asker's question, so that a query that leads nowhere costs half of a round.
    """

    name = "fast_vector_search"
    description = (
        "Quick semantic search over text chunks. Use for factual queries about specs, definitions, procedures, "
        "people, issues, mails and documents."
    )
    inputs = Query
    status = "Searching text chunks..."
    source = "chunks"

    def __init__(self, finder: search.Search, *, limit: int = 5) -> None:
        self._finder = finder
        self._limit = limit

    async def is_tool_available(self, tree_data: TreeData) -> bool:
        return tree_data.permits(SEARCH, "search_knowledge")

    async def __call__(self, tree_data: TreeData, inputs: dict[str, Any]) -> AsyncIterator[Given]:
        query = str(inputs["query"])
        given = tree_data.environment.given.get(self.name, {})
        coverage, ranked = await self._ranked(tree_data, query, self._limit + len(given))
        before = [given[one.provenance.chunk_id] for one in ranked[: self._limit] if one.provenance.chunk_id in given]
        rankings = [ranked]
        if given and query.casefold().split() != tree_data.user_prompt.casefold().split():
            try:
                rankings.append(await self._of_question(tree_data))
            except root.JervisError as error:
                # What the query itself has found is given all the same.
                if not any(one.provenance.chunk_id not in given for one in ranked):
                    raise
                yield Status(f"The question itself was not searched for again: {error.message}")
        new = [[one for one in ranking if one.provenance.chunk_id not in given] for ranking in rankings]
        shown = _in_turns(new)[: self._limit]
        known = "".join(f"[{ref}]" for ref in before)
        if not shown:
            none = f"No further text results for: {query[:200]}" if known else f"No text results for: {query[:200]}"
            yield Error(none, suggestion="Try broader search terms or another tool.")
            return
        objects = [_passage(one, query) for one in shown]
        metadata = {"query": query, "source": self.source, "coverage": coverage, "top": _named(objects[0])}
        message = "Found {num_objects} text chunks matching '{query}'. Top result from {top}."
        if known:
            metadata["known"] = known
            message = (
                "Found {num_objects} further text chunks matching '{query}', beside {known}. Top result from {top}."
            )
        yield Result(
            objects=objects,
            metadata=metadata,
            name=_PASSAGES,
            payload_type="chunks",
            llm_message=message,
        )

    async def _ranked(self, tree_data: TreeData, query: str, most: int) -> tuple[float, list[api.EvidenceItem]]:
        """The coverage, and what the rules let through of about so many passages, the best first."""
        wanted = min(_MOST, most if tree_data.held.shows_all else most * _KEPT_BACK)
        asked = api.RetrieveRequest(scope=tree_data.viewer, query=query, max_results=wanted)
        # The copy of a request is validated: a viewer is not made a plain scope by it.
        found = await self._finder.retrieve(asked, tree_data.urgency)
        held = tree_data.held
        kept = [one for one in found.items if held.shows(one.provenance.source_urn, one.provenance.kind)]
        return found.coverage, kept

    async def _of_question(self, tree_data: TreeData) -> list[api.EvidenceItem]:
        """The passages of the asker's own question, searched for once."""
        hidden = tree_data.environment.hidden_environment
        if _OF_QUESTION not in hidden:
            question = tree_data.user_prompt[:_QUERY_CHARS]
            hidden[_OF_QUESTION] = (await self._ranked(tree_data, question, _DEPTH * self._limit))[1]
        found: list[api.EvidenceItem] = hidden[_OF_QUESTION]
        return found


class Code(Inputs):
    """Inputs of `code_search`."""

    kind: Literal["where", "callers", "callees", "impact"] = Field(
        default="where",
        description="where: files and functions for a text. callers, callees: calls of a symbol. impact: what breaks.",
    )
    text: str = Field(
        min_length=1,
        max_length=2000,
        description="For where the text; else the symbol: the end of a qualified name (Shape.area) or PATH:NAME.",
    )


class CodeSearchTool(Chosen):
    """Places in source code. It is there where the code of a branch is known."""

    name = "code_search"
    description = "Files and functions of the known source code for a text, and who calls what."
    inputs = Code
    status = "Searching code..."
    source = "code"
    exact = True

    def __init__(self, asks: service.Questions, known: book.Book, *, limit: int = 10) -> None:
        self._asks = asks
        self._book = known
        self._limit = limit

    async def is_tool_available(self, tree_data: TreeData) -> bool:
        if not tree_data.permits(SEARCH, "code_where", "code_callers", "code_callees", "code_impact"):
            return False
        hidden = tree_data.environment.hidden_environment
        if "code" not in hidden:
            found = await self._book.visible(tree_data.viewer, tree_data.repository)
            hidden["code"] = any(branch.commit for _, branch in found)
        return bool(hidden["code"])

    async def __call__(self, tree_data: TreeData, inputs: dict[str, Any]) -> AsyncIterator[Given]:
        kind, text = str(inputs.get("kind", "where")), str(inputs["text"])
        place = {"scope": tree_data.viewer, "repository": tree_data.repository}
        coverage, objects = await self._found(kind, text, place)
        shown = [one for one in objects if tree_data.held.shows(str(one["sourceUrn"]), "git_file")]
        if not shown:
            yield Error(
                f"No code for: {text[:200]}.{_calls_unknown(coverage)}", suggestion="Try kind where with other words."
            )
            return
        yield Result(
            objects=shown,
            metadata={
                "query": text,
                "kind": kind,
                "source": self.source,
                "commit": coverage.commit,
                "unknown": _calls_unknown(coverage),
            },
            name="code_results",
            payload_type="code",
            llm_message="Found {num_objects} places in code ({kind}) for '{query}' at commit {commit}.{unknown}",
        )

    async def _found(self, kind: str, text: str, place: dict[str, Any]) -> tuple[api.Coverage, list[dict[str, Any]]]:
        if kind == "where":
            where = await self._ask(kind, api.CodeWhere(text=text, limit=self._limit, **place), api.WhereReply)
            files = [
                _code(where.coverage, one.path, f"file {one.path}", one.path) for one in where.files[: self._limit]
            ]
            functions = [_place(where.coverage, one.place, "") for one in where.functions[: self._limit]]
            return where.coverage, [*functions, *files]
        if kind == "impact":
            impact = await self._ask(kind, api.Impact(symbol=text, limit=self._limit, **place), api.ImpactReply)
            return impact.coverage, [
                _place(impact.coverage, one.place, f", {one.distance} away, {one.by} {one.of}")
                for one in impact.affected
            ]
        calls = await self._ask(kind, api.Callers(symbol=text, limit=self._limit, **place), api.CallsReply)
        return calls.coverage, [
            _code(
                calls.coverage,
                one.caller.path,
                f"{one.caller.qualified_name} calls {one.callee.qualified_name} at {one.caller.path}:{one.line}",
                f"{one.caller.key}>{one.callee.key}:{one.line}",
            )
            for one in calls.calls
        ]

    async def _ask(self, kind: str, asked: api.CodeQuestion, reply: type[_Reply]) -> _Reply:
        return reply.model_validate_json(await self._asks.ask(kind, asked))


class RulesTool(Chosen):
    """Shows the hard rules in force. They hold whether it is called or not."""

    name = "rules"
    description = "The hard rules that are in force here. Use when the question is about rules themselves."
    inputs = NoInputs
    status = "Reading the rules..."

    async def is_tool_available(self, tree_data: TreeData) -> bool:
        # Who asks on behalf of a user may not read rules (`kb.service.http.access`).
        return bool(tree_data.rules) and not isinstance(tree_data.viewer, scope.Viewer)

    async def __call__(self, tree_data: TreeData, inputs: dict[str, Any]) -> AsyncIterator[Given]:
        yield Result(
            objects=[
                {
                    "key": f"rule:{one.rule_key}:{one.version}:{one.scope.model_dump_json()}",
                    "title": f"Rule {one.rule_key}",
                    "ruleType": one.rule_type.value,
                    "version": one.version,
                    "text": enforce_lines.unaddressed(one.rule_content)[:_RULE_CHARS],
                }
                for one in tree_data.rules
            ],
            metadata={"source": "rules"},
            name="rules",
            payload_type="rules",
            llm_message="{num_objects} rules are in force.",
        )


def in_force(rules: Sequence[api.Rule], tree_data: TreeData, most: int, *, reviewed: bool = False) -> None:
    """Put the rules that hold for the asker into the state; `most` characters of them have room in a prompt.

    Raises `kb.errors.Unconfigured` for rules that cannot be enforced or have no room, `Forbidden` where a person has to
    approve every answer; with `reviewed` the one who asks has a person approve it.
    """
    kept = tuple(one for one in rules if governs(one.scope, tree_data.viewer))
    try:
        held = enforce_lines.Provisions.together(one.rule_content for one in kept)
    except ValueError as error:
        raise errors.Unconfigured(
            f"a hard rule cannot be enforced: {error}", field="rules", remedy="Fix it with PUT /api/v1/rules."
        ) from error
    size = sum(len(enforce_lines.unaddressed(one.rule_content)) for one in kept)
    if size > most:
        raise errors.Unconfigured(
            f"the {len(kept)} hard rules of this scope have {size} characters, at most {most} fit into a prompt",
            field="rules",
            remedy="Shorten the rules (GET /api/v1/rules).",
        )
    if held.needs_approval and not reviewed:
        raise errors.Forbidden(
            "a hard rule asks for a person's approval of each answer, and here is no one who could give it",
            field="scope",
            remedy="Submit the question as a PendingTask of type UserInputProcessing.",
        )
    tree_data.rules, tree_data.held = kept, held


def _in_turns(rankings: Sequence[Sequence[api.EvidenceItem]]) -> list[api.EvidenceItem]:
    """The first of each, then the second of each, each passage once."""
    found: dict[str, api.EvidenceItem] = {}
    for some in itertools.zip_longest(*rankings):
        for one in some:
            if one is not None:
                found.setdefault(one.provenance.chunk_id, one)
    return list(found.values())


def _passage(one: api.EvidenceItem, query: str) -> dict[str, Any]:
    of = one.provenance
    found: dict[str, Any] = {
        "chunkId": of.chunk_id,
        "sourceUrn": of.source_urn,
        "kind": of.kind,
        "title": of.title,
        "text": one.content,
        "confidence": round(one.confidence, 4),
    }
    page = of.metadata.get("page")
    starts = tuple((start.offset, start.page or 0) for start in of.pages)
    if starts:
        page = page_numbers.best(one.content, starts, query)
    more = {
        "page": page if isinstance(page, int) else None,
        "pageStarts": starts if len(starts) > 1 else None,
        "observedAt": of.observed_at.isoformat() if of.observed_at else None,
        "sentence": of.sentence,
        "retiredAt": of.retired_at.isoformat() if of.retired_at else None,
        "supersededBy": of.superseded_by,
    }
    return found | {name: value for name, value in more.items() if value is not None}


def _calls_unknown(known: api.Coverage) -> str:
    return f" Calls of {', '.join(known.calls_unknown)} are not known." if known.calls_unknown else ""


def _place(known: api.Coverage, place: api.CodePlace, more: str) -> dict[str, Any]:
    said = f"{place.kind} {place.qualified_name} at {place.path}:{place.line}{more} {place.signature}".strip()
    return _code(known, place.path, said, place.key) | {"line": place.line, "name": place.qualified_name}


def _code(known: api.Coverage, path: str, text: str, key: str) -> dict[str, Any]:
    return {
        "key": f"code:{known.repository}:{key}",
        "sourceUrn": f"{api.GIT_FILE}::{known.repository}@{known.branch}:{path}",
        "title": path,
        "path": path,
        "text": text,
    }


def _named(passage: dict[str, Any]) -> str:
    page = f", page {passage['page']}" if "page" in passage else ""
    return f"{passage['title'] or passage['sourceUrn']}{page}"
