"""What the tools that concern a task make of it. Pure: a call changes nothing but what the calls say together.

Calls that contradict each other: the most careful one holds, whatever the order.

    failToUserTask
    askUserQuestions, createUserTaskFromJira    their questions together
    deferPendingTask                            the longest
    routeTask, classifyJiraTicket               that something is to be done, before that nothing is

The same calls about the same task have the same ids and the same judgement. A call may only name the task's own issue,
document and chunks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pydantic

from kb import api, errors
from kb.api import directive
from kb.extract import answers, draft, hints
from kb.extract.tools import registry, storing

MOST_BYTES = 65_536
CAREFUL = frozenset({"failToUserTask", "askUserQuestions", "createUserTaskFromJira", "deferPendingTask"})
"""Tools whose call must not be lost: without it something might be executed."""
_URGENCIES = ("low", "normal", "high")
_Asked = TypeVar("_Asked", bound=pydantic.BaseModel)


@dataclass(frozen=True)
class About:
    """What calls about a task may name. `barred` says by tool why a hard rule forbids it."""

    task_id: str
    source_urn: str
    issue_key: str = ""
    chunk_ids: frozenset[str] = frozenset()
    node_key: str = ""
    barred: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, request: api.IngestRequest, made: draft.Draft, issue_key: str, barred: Mapping[str, str] | None = None
    ) -> About:
        """The task that a document was sent for; without one, the document itself stands for it."""
        uid = request.metadata.get("taskUid")
        return cls(
            uid if isinstance(uid, str) and uid else made.document_id,
            request.source_urn,
            issue_key,
            frozenset(piece.id for piece in made.pieces),
            made.anchor.key,
            barred or {},
        )

    @property
    def tools(self) -> tuple[registry.Tool, ...]:
        """Those that can be called: without a key of an issue none that asks for one."""
        known = (one for one in registry.TASK if self.issue_key or "jira_key" not in one.arguments.model_fields)
        return tuple(one for one in known if one.name not in self.barred)


class Calls:
    """The calls about one task, and what they come to."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._made: dict[str, tuple[str, pydantic.BaseModel]] = {}
        self._count = 0
        self._open: set[str] = set()

    @property
    def functions(self) -> list[dict[str, Any]]:
        """What a model is offered."""
        return [one.function for one in self._about.tools]

    @property
    def accepted(self) -> list[dict[str, Any]]:
        """The calls that hold, in their order."""
        return [
            {"name": name, "arguments": asked.model_dump(mode="json", by_alias=True, exclude_unset=True)}
            for name, asked in self._made.values()
        ]

    @property
    def decided(self) -> bool:
        """Whether they say where the task goes; not after too many, or while a careful one is left that was refused."""
        settled = any(name != "classifyJiraTicket" for name, _ in self._made.values())
        return settled and self._count <= answers.MOST_CALLS and not self._open & CAREFUL

    def answer(self, name: str, arguments: object) -> tuple[str, dict[str, Any]]:
        """The outcome of a call ("ok" or the code of the error) and its result as the caller gets it."""
        try:
            result = self.take(name, arguments)
        except (errors.Invalid, errors.Forbidden, errors.NotFound, errors.TooLarge) as error:
            code = _CODES[type(error)]
            problem = api.Problem(code=code, message=error.message, field=error.field, remedy=error.remedy)
            self._open.add(name)
            return code, {"error": problem.model_dump(by_alias=True, exclude_none=True)}
        self._open.discard(name)
        return "ok", result.model_dump(mode="json", by_alias=True)

    def take(self, name: str, arguments: object) -> pydantic.BaseModel:
        """Carry out a call. Raises `kb.errors.Invalid`, `Forbidden`, `NotFound` or `TooLarge`."""
        tool = registry.NAMED.get(name)
        if tool is None or not tool.concerns_task:
            offered = ", ".join(one.name for one in self._about.tools)
            raise errors.NotFound("there is no such tool", field="name", remedy=f"Call one of {offered}.")
        if name in self._about.barred:
            raise errors.Forbidden(self._about.barred[name], field="name", remedy="Go on without the tool.")
        self._count += 1
        if self._count > answers.MOST_CALLS:
            raise errors.TooLarge(
                f"{answers.MOST_CALLS} calls were made already", field="name", remedy="Nothing more is carried out."
            )
        asked = _validated(arguments, tool.arguments)
        self._check(asked)
        call_id = storing.call_id(asked, self._about.task_id, name)
        self._made.setdefault(call_id, (name, asked))
        return self._result(asked, call_id)

    def judgement(self) -> hints.Judgement | None:
        """What the calls say together; None as long as they do not decide."""
        if not self.decided:
            return None
        fails, asks = self._of(api.FailToUserTask), self._of(api.AskUserQuestions)
        users, defers, routes = self._of(api.CreateUserTaskFromJira), self._of(api.DeferPendingTask), self._routes
        questions = [one for ask in asks for one in ask.questions] + [one.title for one in users]
        action, reasons = api.DirectiveAction.EXECUTE, [one.reason for one in routes]
        if fails:
            action, reasons = api.DirectiveAction.FAIL, [one.reason for one in fails]
        elif questions:
            looked = [f"A person looks at {one.jira_key} first." for one in users]
            action, reasons = api.DirectiveAction.ASK, [one.context for one in asks] + looked
        elif defers:
            action, reasons = api.DirectiveAction.DEFER, [one.reason for one in defers]
        deadline = min((one.deadline for one in routes if one.deadline is not None), default=None)
        words = [one.context_summary for one in routes if one.context_summary]
        said = " ".join(dict.fromkeys(reasons))
        urgent = [one.urgency for one in routes] + [one.priority.value.lower() for one in users]
        asking = action is api.DirectiveAction.ASK
        deferring = action is api.DirectiveAction.DEFER
        return hints.Judgement(
            has_actionable_content=self._actionable,
            is_assigned_to_me=any(one.assigned_to_us for one in routes),
            has_future_deadline=deadline is not None,
            suggested_deadline=deadline,
            urgency=max(urgent, key=_URGENCIES.index, default="normal"),
            summary=" ".join(dict.fromkeys(words or reasons))[:4000],
            reason=said[:2000],
            action=action,
            questions=list(dict.fromkeys(questions))[: directive.MOST_QUESTIONS] if asking else [],
            defer_minutes=max(one.defer_minutes for one in defers) if deferring else None,
            tags=self._tags(),
        )

    @property
    def contradictions(self) -> list[str]:
        """What does not hold beside what does, in sentences."""
        ranks = [
            [name for name, _ in self._made.values() if name == "failToUserTask"],
            [name for name, _ in self._made.values() if name in ("askUserQuestions", "createUserTaskFromJira")],
            [name for name, _ in self._made.values() if name == "deferPendingTask"],
        ]
        said = [name for rank in ranks for name in dict.fromkeys(rank)]
        strongest = next((rank for rank in ranks if rank), [])
        lost = [name for name in said if name not in strongest]
        if self._actionable:
            lost += ["routeTask DONE"] * any(one.routing is api.Routing.DONE for one in self._routes)
            kinds = [one.classification for one in self._of(api.ClassifyJiraTicket)]
            lost += ["classifyJiraTicket INFORMATIONAL"] * (api.JiraClassification.INFORMATIONAL in kinds)
        holds = " and ".join(dict.fromkeys(strongest)) or "that something is to be done"
        return [f"contradicting calls of tools: {holds} holds, {', '.join(lost)} does not"] if lost else []

    @property
    def _routes(self) -> list[api.RouteTask]:
        return self._of(api.RouteTask)

    @property
    def _actionable(self) -> bool:
        kinds = {one.classification for one in self._of(api.ClassifyJiraTicket)}
        wanted = bool(kinds & {api.JiraClassification.ACTIONABLE, api.JiraClassification.QUESTION})
        routed = any(one.routing is api.Routing.READY_FOR_GPU for one in self._routes)
        return wanted or routed or any(name in CAREFUL for name, _ in self._made.values())

    def _tags(self) -> list[str]:
        said = [tag for one in self._routes for tag in one.tags]
        for one in self._of(api.ClassifyJiraTicket):
            said.append(one.custom_group or one.classification.value.lower())
        return list(dict.fromkeys(said))[: directive.MOST_TAGS]

    def _of(self, kind: type[_Asked]) -> list[_Asked]:
        return [asked for _, asked in self._made.values() if isinstance(asked, kind)]

    def _check(self, asked: pydantic.BaseModel) -> None:
        """Whether a call names what is the task's own."""
        own = self._about
        named = getattr(asked, "jira_key", None)
        if named is not None and named != own.issue_key:
            raise errors.Invalid("that is not the issue of this task", field="jiraKey", remedy=f"Give {own.issue_key}.")
        for name in ("description_ref", "details_ref"):
            reference = getattr(asked, name, None)
            if reference is not None and _line(reference) != _line(own.source_urn) and reference not in own.chunk_ids:
                raise errors.Invalid(
                    "that refers to nothing of this task",
                    field=_camel(name),
                    remedy="Give the sourceUrn of the document in the line Document.",
                )
        if isinstance(asked, api.RouteTask):
            _own(asked.rag_doc_ids, own.chunk_ids, "ragDocIds")
            _own(asked.graph_node_keys, {own.node_key}, "graphNodeKeys")

    def _result(self, asked: pydantic.BaseModel, call_id: str) -> pydantic.BaseModel:
        return _RESULTS[type(asked)](asked, call_id, self._about.task_id)


def _classified(asked: Any, call_id: str, task: str) -> pydantic.BaseModel:
    kind = asked.classification
    return api.ClassificationResult(call_id=call_id, task_id=task, jira_key=asked.jira_key, classification=kind)


_RESULTS: Mapping[type[pydantic.BaseModel], Callable[[Any, str, str], pydantic.BaseModel]] = {
    api.ClassifyJiraTicket: _classified,
    api.CreateUserTaskFromJira: lambda _, call, task: api.TaskCreationResult(call_id=call, task_id=task),
    api.DeferPendingTask: lambda _, call, task: api.DeferResult(call_id=call, scheduled_task_id=task),
    api.FailToUserTask: lambda _, call, task: api.FailResult(call_id=call, user_task_id=task),
    api.AskUserQuestions: lambda asked, call, task: api.AskResult(
        call_id=call, dialog_task_id=task, questions=len(asked.questions)
    ),
    api.RouteTask: lambda asked, call, task: api.RouteResult(call_id=call, task_id=task, routing=asked.routing),
}
_CODES: Mapping[type[Exception], str] = {
    errors.Invalid: "invalid",
    errors.Forbidden: "forbidden",
    errors.NotFound: "not_found",
    errors.TooLarge: "too_large",
}


def _validated(arguments: object, shape: type[pydantic.BaseModel]) -> pydantic.BaseModel:
    if not isinstance(arguments, dict):
        raise errors.Invalid("the arguments are no object", field="arguments", remedy="Give an object.")
    try:
        size = len(json.dumps(arguments))
    except (TypeError, ValueError, RecursionError):
        size = MOST_BYTES + 1
    if size > MOST_BYTES:
        raise errors.TooLarge(
            "the arguments are too long", field="arguments", remedy="Refer to content instead of giving it."
        )
    try:
        return shape.model_validate(arguments)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))[:100] or "arguments"
        raise errors.Invalid(
            f"{place}: {first['msg'][:300]}", field=place, remedy="See the parameters of the tool."
        ) from error


def _own(named: Sequence[str], own: frozenset[str] | set[str], field: str) -> None:
    for number, one in enumerate(named):
        if one not in own:
            raise errors.Invalid(
                "that is not of this task's document", field=f"{field}.{number}", remedy=f"Leave {field} out."
            )


def _line(text: str) -> str:
    return " ".join(text.split())


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)
