"""The node `synthesize`: one answer from what the delegations handed back.

Results are merged whole, statements that an agent is not sure of are looked up in the knowledge base, and the model
writes the answer in the user's language with numbered evidence. One result that needs none of this is the answer as it
stands, without a model. Where no model can write it, because the budget is used up or its answers are no use, the
results follow one another, with what is missing. The node reads, and stores content under its own hash. What a task
teaches is written down here and learned when the round has ended, in `procedure_store.Learning`.

Source: seed 000 "Delegation Graph Flow" (merges results, cross-check, response language).
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog
from pydantic import JsonValue

from crds import priority
from kb import api
from kb import client as kb_client
from orchestrator_job import errors, outcome
from orchestrator_job.agents import protocol, registry
from orchestrator_job.answer import (
    answer_prompt,
    citations,
    claims,
    evidence_pack,
    model_answer,
    question,
    question_store,
)
from orchestrator_job.context import rules_loader
from orchestrator_job.model import (
    excerpt,
    model_calls,
    prompt_budget,
    prompt_escape,
    prompts,
    repetition,
    rules_context,
    step_tools,
)
from orchestrator_job.plan import procedure_store, procedures
from orchestrator_job.plan.plan_delegations import Way
from orchestrator_job.store import artifacts, delegation_models, retry, task_memory
from orchestrator_job.store.delegation_models import DelegationStatus
from orchestrator_job.store.graph_state import State
from router import client as router_client
from router.client import reading
from text import language, quotations

_log = structlog.get_logger("orchestrator_job.run.synthesis")

Missing = Callable[[State], Awaitable[Sequence[str]]]

PROMPT = "synthesize.v1"
NUM_CTX = 16_384
ANSWER_TOKENS = 3072
_LACKING = ("unconfirmed", "unchecked")
_PASSAGES = 3
_SOURCES = 20
_SOURCE_MARK = re.compile(r"\[(?:source: ?)?([^\[\]\s]+::[^\[\]\n]+?)\]")


@dataclass(frozen=True, slots=True)
class Merged:
    """What was handed back, in the order of the plan. `missing`: what failed or is not there, a line each. `doubted`:
    outputs whose statements are to be looked up."""

    outputs: tuple[delegation_models.AgentOutput, ...]
    missing: tuple[str, ...] = ()
    doubted: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    changed_files: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def usable(self) -> tuple[delegation_models.AgentOutput, ...]:
        """Those that say something."""
        return tuple(one for one in self.outputs if one.result.strip())


@dataclass(frozen=True, slots=True)
class Means:
    """What the node works with. `model` writes the answer; `urgency` is that of its calls, `beside` that of queries to
    the knowledge base; `now` is in UTC. `learns`: the flag use_procedural_memory; `missing` gives lines of what no
    delegation was made for."""

    task: task_memory.TaskMemory
    kb: kb_client.Client
    store: artifacts.Artifacts
    loader: rules_loader.Loader
    retries: retry.Retry
    asks: model_calls.Asking
    model: str
    urgency: priority.Priority
    beside: priority.Priority
    num_ctx: int | None
    context_chars: int
    now: Callable[[], datetime]
    agents: registry.Registry
    learns: bool = False
    missing: Missing | None = None


@dataclass(frozen=True, slots=True)
class _Checked:
    items: tuple[evidence_pack.Item, ...]
    unconfirmed: tuple[str, ...] = field(default=())
    unchecked: tuple[str, ...] = field(default=())


class Synthesize:
    """Writes the round's answer."""

    def __init__(self, means: Means) -> None:
        self._means = means

    async def __call__(self, state: State) -> State:
        """Writes pack, answer, trail and lesson. Raises Fenced, Stuck, what a refused token raises, and Unavailable
        while a service is away."""
        means, number = self._means, state["round"]
        held = await means.loader.of(state)
        items = evidence_pack.load(await means.store.get(state["pack"]))
        merged = await merged_of(means.store, state, means.missing)
        spoken = state.get("response_language") or language.DEFAULT
        checked = _Checked(await self._read(merged, items, held))
        given = direct(merged, checked.items, spoken, held)
        if given is None:
            checked = await self._checked(merged, checked.items, held, spoken)
            given = await self._written(state, merged, checked, spoken, held)
        trail: list[str] = []
        if given.needs_input:
            asked = sorted(" ".join(each.lower().split()) for each in given.questions)
            trail = repetition.note(state.get("trail", []), "ask", list(asked))
        learns = means.learns and not given.needs_input
        _log.info(
            "synthesized",
            outputs=len(merged.outputs),
            missing=len(merged.missing),
            unconfirmed=len(checked.unconfirmed),
            unchecked=len(checked.unchecked),
            citations=given.citations,
        )
        return {
            "pack": await means.store.put(evidence_pack.dump(checked.items), number),
            "answer": await means.store.put(given.model_dump(by_alias=True), number),
            "trail": trail,
            "lesson": await self._lesson(state, merged) if learns else {},
        }

    async def _lesson(self, state: State, merged: Merged) -> dict[str, JsonValue]:
        """That the procedure was used which was followed, or what a plan that worked teaches."""
        means, how = self._means, state["execution_plan"]
        lesson: api.Use | api.ProcedureDraft
        client_id = means.task.scope.client_id
        if how.get("procedure"):
            lesson = api.Use(client_id=client_id, id=str(how["procedure"]), succeeded=not merged.missing)
        elif how.get("way") == Way.MODEL and not merged.missing and client_id:
            document = str(await means.store.get(state["document"]))
            lesson = procedures.learned(means.task, document, await _plan(means.store, state), means.agents)
        else:
            return {}
        return await procedure_store.written(means.store, state["round"], lesson)

    async def _read(
        self, merged: Merged, items: tuple[evidence_pack.Item, ...], held: rules_context.Standing
    ) -> tuple[evidence_pack.Item, ...]:
        """The evidence, and passages of the sources that agents name and that are not in it yet."""
        known = {item.source for item in items}
        wanted = [urn for urn in merged.sources if urn not in known and "::" in urn and "*" not in urn][:_SOURCES]
        if not wanted:
            return items
        query = " ".join(one.result for one in merged.usable)[:2000]
        return self._longer(items, await self._found(query, held, len(wanted) + _PASSAGES, wanted), held)

    async def _checked(
        self, merged: Merged, items: tuple[evidence_pack.Item, ...], held: rules_context.Standing, spoken: str
    ) -> _Checked:
        """Looks up the statements of the doubted outputs that the evidence does not support yet. They are in the
        language of their report, or where it says too little, in the language `spoken`."""
        doubted = [
            (statement, language.detect(one.result) or spoken)
            for one in merged.usable
            if one.delegation_id in merged.doubted
            for statement in claims.statements(one.result)
        ][: claims.MOST]
        texts = [claims.Passage(item.content) for item in items]
        opened = [one for one in doubted if claims.support(*one, texts) is not claims.Support.FOUND]
        hits = await asyncio.gather(*(self._found(statement, held, _PASSAGES) for statement, _ in opened))
        unconfirmed, unchecked = [], []
        for (statement, written), found in zip(opened, hits, strict=True):
            given = claims.support(statement, written, [*(claims.Passage(one.content) for one in found), *texts])
            if given is claims.Support.NONE:
                unconfirmed.append(statement)
                continue
            # The model compares what no program could.
            items = self._longer(items, found, held)
            if given is claims.Support.UNCHECKED:
                unchecked.append(statement)
        return _Checked(items, tuple(unconfirmed), tuple(unchecked))

    def _longer(
        self, items: tuple[evidence_pack.Item, ...], found: Sequence[api.EvidenceItem], held: rules_context.Standing
    ) -> tuple[evidence_pack.Item, ...]:
        # As much again as the evidence may have: what agents found is not left out for want of room.
        room = 2 * self._means.context_chars
        return evidence_pack.extend(items, found, self._means.task.source, room, held.provisions)

    async def _found(
        self, query: str, held: rules_context.Standing, most: int, sources: Sequence[str] | None = None
    ) -> list[api.EvidenceItem]:
        means = self._means
        if not held.provisions.permits_tool(step_tools.Tool.SEARCH):
            return []
        named = None if sources is None else list(sources)
        request = api.RetrieveRequest(scope=means.task.scope, query=query[:2000], max_results=most, sources=named)
        ask = functools.partial(means.kb.retrieve, request, urgency=means.beside)
        try:
            found = (await means.retries.call("check statements", ask)).items
        except kb_client.Rejected as error:
            outcome.recheck(error)
            # The words are a model's: what is wrong with them must not end the run.
            _log.warning("a statement could not be looked up", reason=error.message)
            return []
        return [one for one in found if held.provisions.shows(one.provenance.source_urn, one.provenance.kind)]

    async def _written(
        self, state: State, merged: Merged, checked: _Checked, spoken: str, held: rules_context.Standing
    ) -> model_answer.Answer:
        means = self._means
        now, window = means.now(), means.num_ctx or NUM_CTX
        asked, lacking = await question_store.load(state, means.store), (checked.unconfirmed, checked.unchecked)
        talk, shown = messages(asked, merged, checked.items, lacking, spoken, now, held, window)
        if talk is None:
            return plainly(merged, *lacking)
        beside = [*(one.result for one in merged.usable), *merged.missing, *held.texts]
        attempts = citations.Tries(citations.Sources(shown, own=[asked.text], beside=beside), held.provisions)
        ids = [item.id for item in shown]

        def judge(draft: model_answer.Draft) -> model_answer.Checked:
            given = model_answer.judged(draft, ids, held.provisions)
            return attempts.take(_finished(given, merged, *lacking))

        try:
            return await means.asks.shaped(
                "answer",
                f"r{state['round']}.synthesis",
                talk,
                model_answer.Draft,
                judge,
                wire=model_answer.wire(ids, held.provisions),
                choices={"citations": ids},
                priority=means.urgency,
                model=means.model,
                num_ctx=means.num_ctx,
                num_predict=ANSWER_TOKENS,
                final=True,
            )
        except router_client.Unauthorized:
            raise
        except (errors.BudgetExhausted, errors.InvalidOutput, router_client.Rejected) as error:
            _log.warning("the results are put together without a model", reason=error.message)
        except router_client.Unavailable:
            if attempts.last is None:
                raise
        if attempts.last is not None:
            return attempts.last
        return plainly(merged, *lacking)


# --- merging --------------------------------------------------------------------------------------------------------


async def merged_of(store: artifacts.Artifacts, state: State, missing: Missing | None = None) -> Merged:
    """What the delegations of the state's plan have handed back so far; `missing` names what none was made for."""
    made = await _plan(store, state)
    keys = state.get("delegation_results") or {}
    ids = [one for group in made.parallel_groups for one in group]
    outputs = {
        one: delegation_models.AgentOutput.model_validate(await store.get(keys[one])) for one in ids if one in keys
    }
    merged = merge(made, outputs, state.get("delegation_states") or {})
    more = await missing(state) if missing is not None else ()
    return replace(merged, missing=(*merged.missing, *more))


async def _plan(store: artifacts.Artifacts, state: State) -> delegation_models.ExecutionPlan:
    return delegation_models.ExecutionPlan.model_validate(await store.get(state["execution_plan"]["key"]))


def merge(
    made: delegation_models.ExecutionPlan,
    outputs: Mapping[str, delegation_models.AgentOutput],
    states: Mapping[str, Mapping[str, object]],
) -> Merged:
    """Outputs in the order of the groups; artifacts, files and sources once each."""
    ids = [one for group in made.parallel_groups for one in group]
    ordered = [outputs[one] for one in ids if one in outputs]
    missing: list[str] = []
    for one in ids:
        message = made.message(one)
        name, summary = message.agent_name, " ".join(message.task_summary.split())[:300]
        if one not in outputs:
            missing.append(f"{name} did not report: {summary}")
            continue
        issues = _texts(outputs[one].structured_data.get("issues"))
        status = (states.get(one) or {}).get("status")
        if status == DelegationStatus.FAILED.value or (status is None and not outputs[one].success):
            missing.append(f"{name} could not do it: {summary}" + (f" ({'; '.join(issues)})" if issues else ""))
        else:
            missing += [f"{name} reports: {issue}" for issue in issues]
    return Merged(
        outputs=tuple(ordered),
        missing=tuple(dict.fromkeys(missing)),
        doubted=tuple(one.delegation_id for one in ordered if _doubted(one, states.get(one.delegation_id) or {})),
        artifacts=tuple(dict.fromkeys(each for one in ordered for each in one.artifacts)),
        changed_files=tuple(dict.fromkeys(each for one in ordered for each in one.changed_files)),
        sources=tuple(
            dict.fromkeys(
                each
                for one in ordered
                for each in (*_texts(one.structured_data.get("sources")), *_SOURCE_MARK.findall(one.result))
            )
        ),
    )


def _doubted(output: delegation_models.AgentOutput, state: Mapping[str, object]) -> bool:
    judged = protocol.verdict(output, tries=protocol.RETRIES)
    return bool(state.get("verify")) or not isinstance(judged, protocol.Accept) or judged.verify


def direct(
    merged: Merged, items: Sequence[evidence_pack.Item], spoken: str, held: rules_context.Standing
) -> model_answer.Answer | None:
    """The answer without a model: the one result that there is, if its agent is sure of it, it is in the user's
    language, its citations are sources of the evidence, and no rule objects. None: a model has to write it."""
    if len(merged.outputs) != 1 or merged.missing or merged.doubted or not merged.usable:
        return None
    output = merged.outputs[0]
    written = language.detect(output.result)
    if quotations.MARK.search(output.result) or written not in (None, spoken):
        return None
    numbers: dict[str, int] = {}
    for item in reversed(items):
        numbers[item.source] = item.id
    marks = _SOURCE_MARK.findall(output.result)
    if any(mark not in numbers for mark in marks):
        return None
    text = _SOURCE_MARK.sub(lambda found: f"[{numbers[found.group(1)]}]", output.result)
    given = model_answer.Answer(
        answer=text, citations=[], confidence=output.confidence, needs_input=False, questions=[]
    )
    checked = citations.verify(given, citations.Sources(items))
    sources = {item.id: item.source for item in items}
    # An agent names a source, of which another passage may have the words.
    if any(one.found is None or sources[one.found] not in map(sources.get, one.marks) for one in checked.misquoted):
        return None
    draft = model_answer.Draft(answer=checked.answer, confidence=checked.confidence, needs_input=False)
    try:
        whole = model_answer.judged(draft, [item.id for item in items], held.provisions)
    except reading.Unusable:
        return None
    # A mark that names no evidence: the agent's text needs a model's eye.
    return whole if whole.answer == checked.answer else None


def plainly(merged: Merged, unconfirmed: Sequence[str], unchecked: Sequence[str] = ()) -> model_answer.Answer:
    """The results one after another, each under its agent's name, and what is missing: for the case that no model
    writes an answer. Numbers in brackets are no citations then."""
    parts = [f"{one.agent_name}:\n{_neutral(one.result)}" for one in merged.usable]
    if merged.missing:
        parts.append("\n".join(f"- {line}" for line in merged.missing))
    text = _marked("\n\n".join(parts), unconfirmed, unchecked) or "-"
    confidence = min((one.confidence for one in merged.usable), default=0.0)
    most = citations.UNCONFIRMED if unconfirmed or merged.missing else 1.0
    return model_answer.Answer(
        answer=text, citations=[], confidence=min(confidence, most), needs_input=False, questions=[]
    )


def _marked(text: str, unconfirmed: Sequence[str], unchecked: Sequence[str]) -> str:
    return claims.marked(claims.marked(text, unconfirmed), unchecked, claims.NOT_CHECKED)


def _finished(
    given: model_answer.Answer, merged: Merged, unconfirmed: Sequence[str], unchecked: Sequence[str]
) -> model_answer.Answer:
    said = _marked(prompt_escape.restore(given.answer), unconfirmed, unchecked)
    most = max((one.confidence for one in merged.usable), default=given.confidence)
    if claims.MARK in said:
        most = min(most, citations.UNCONFIRMED)
    return given.model_copy(update={"answer": said, "confidence": min(given.confidence, most)})


def _neutral(text: str) -> str:
    """An agent's own numbers mean the passages of its tools, not the evidence of the answer."""
    return quotations.MARK.sub(r"(\1)", text)


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else []


# --- the prompt -----------------------------------------------------------------------------------------------------


def messages(
    asked: excerpt.Parts | str,
    merged: Merged,
    items: Sequence[evidence_pack.Item],
    lacking: tuple[Sequence[str], Sequence[str]],
    spoken: str,
    now: datetime,
    held: rules_context.Standing,
    num_ctx: int,
) -> tuple[list[dict[str, str]] | None, list[evidence_pack.Item]]:
    """System and user message, and the evidence that is in them. Reports are never cut: evidence makes room for them,
    the least relevant first, and so does the middle of a long question. `lacking` are the statements that nothing
    supports, and those that were not checked. None in place of the messages where the reports alone do not fit."""
    system = f"{prompts.tagged(PROMPT)}{answer_prompt.about(held)}{answer_prompt.rules(held)}"
    parts = [f"{held.today(now)}\nLanguage of the answer: {spoken}"]
    if known := answer_prompt.background(held).rstrip():
        parts.append(known)
    parts += [_report(one) for one in merged.usable]
    made = [f"stored or made: {each}" for each in merged.artifacts]
    made += [f"changed: {each}" for each in merged.changed_files]
    for name, lines in (("made", made), ("missing", merged.missing), *zip(_LACKING, lacking, strict=True)):
        if lines:
            parts.append("\n".join([f"<{name}>", *(prompt_escape.defuse(line) for line in lines), f"</{name}>"]))
    fitted = prompt_budget.fit(asked, (system, *parts), num_ctx - ANSWER_TOKENS, least=question.SHORT)
    if fitted.left < 0:
        return None, []
    shown = answer_prompt.chosen(answer_prompt.unrepeated(items, asked, fitted.question), fitted.left)
    user = "\n".join([*parts, answer_prompt.evidence(shown), fitted.block])
    return [{"role": "system", "content": system}, {"role": "user", "content": user}], shown


def _report(one: delegation_models.AgentOutput) -> str:
    status = str(one.structured_data.get("status") or ("1" if one.success else "0"))
    said = {"1": "done", "P": "done in part"}.get(status, "not done")
    head = f'<message agent="{one.agent_name}" state="{said}" confidence="{one.confidence:g}">'
    return f"{head}\n{prompt_escape.defuse(_neutral(one.result))}\n</message>"
