"""PendingTask (`pt`): one piece of work, for example a mail or a person's question.

Source: blueprint section 3; seed 000 "TaskTypeEnum values", seed 002 for questions and approvals.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from crds import approvals, phases
from crds.access import MOST_OF_ONE, Access, Principal
from crds.conditions import Condition, find
from crds.conditions import Status as ConditionStatus
from crds.exit_reasons import ExitReason
from crds.given_graph import Facts
from crds.model import IMMUTABLE, ONE_WRITER, Metadata, Model, Time, rules, within_years
from crds.permits import MOST_PERMITS, Permit
from crds.schedule import Recurrence, Schedule, ZoneName
from crds.values import ContentRef, FixedIdentifier, ObjectName, OptionalIdentifier, Urn

CONTENT_BYTES = 32768
MOST_ATTACHMENTS = 32
# etcd's request limit. The schema needs a bound for the cost of CEL; a rule refuses everything over CONTENT_BYTES,
# because the schema's "too long" cannot name a remedy.
_REQUEST_BYTES = 1_572_864
SUMMARY_BYTES = 2048
MOST_STEPS = 500
"""Steps of the graph that one task may take, whatever bounds it further."""
DECISIONS = 2 * approvals.MOST_EFFECTS
"""Maximum of decisions on effects and answers in a status."""


class Type(StrEnum):
    """Where the work comes from; it decides how the content is read."""

    EMAIL = "EmailProcessing"
    WIKI = "WikiProcessing"
    BUG_TRACKER = "BugTrackerProcessing"
    GIT = "GitProcessing"
    USER_INPUT = "UserInputProcessing"
    USER_TASK = "UserTask"
    SCHEDULED = "ScheduledTask"
    LINK = "LinkProcessing"
    MEETING = "MeetingProcessing"


class Mode(StrEnum):
    """Foreground: a person waits for the answer. Background: runs when a GPU is free."""

    FOREGROUND = "Foreground"
    BACKGROUND = "Background"


class Decision(StrEnum):
    """Decision of qualification (seed 000 "Three-Way Task Routing", seed 002 directives)."""

    INFO_ONLY = "InfoOnly"
    EXECUTE = "Execute"
    EXECUTE_HIGH = "ExecuteHigh"
    DEFER = "Defer"
    ASK = "Ask"
    FAIL = "Fail"


class UserTaskKind(StrEnum):
    """What a person has to do before the task continues."""

    QUESTION = "Question"
    APPROVAL = "Approval"
    FAILURE = "Failure"


class Verdict(StrEnum):
    """A person's decision on an approval."""

    APPROVED = "Approved"
    REJECTED = "Rejected"


MOST_ENTRIES = 64
"""Maximum of messages, and of answers. The schema allows one more: the rule that refuses it names a remedy, which the
schema's own "too many" cannot."""
_APPEND_ONLY = rules(
    ("oldSelf.all(o, self.exists(n, n.id == o.id))", "is append-only; entries cannot be removed"),
    (
        f"self.size() <= {MOST_ENTRIES}",
        f"must have at most {MOST_ENTRIES} entries; go on in a new PendingTask with the same correlationId"
        " (once this one has ended or was rejected: kubectl jervis retry NAME --as NEW_NAME)",
    ),
)  # fmt: skip
_ENTRY_FIXED = rules(("self == oldSelf", "an entry cannot be changed once it is written; add another one"))
_AS_MAP = {"x-kubernetes-list-type": "map"}


class Attachment(Model):
    """A file that belongs to the content."""

    name: Annotated[str, Field(min_length=1, max_length=255)]
    """Original file name."""
    media_type: Annotated[str, Field(max_length=127, pattern=r"^[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+$")]
    """IANA media type, for example image/png."""
    content_ref: ContentRef
    """Reference to the bytes."""


class Message(Model):
    """A user's message about this task."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("self == oldSelf", "an entry cannot be changed once it is written; add another one"), within_years("at")
        )
    )

    id: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9._-]+$")]
    """Chosen by the sender; the same id twice is the same message."""
    text: Annotated[str, Field(min_length=1, max_length=8192)]
    """The message."""
    author: Annotated[str, Field(max_length=253)] = ""
    """Author of the message."""
    at: Time | None = None
    """Time of the message."""


class Answer(Model):
    """An answer to a question in status.userTask.questions."""

    model_config = ConfigDict(json_schema_extra=_ENTRY_FIXED)

    id: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9._-]+$")]
    """The id of the question."""
    text: Annotated[str, Field(min_length=1, max_length=8192)]
    """The answer."""
    author: Annotated[str, Field(max_length=253)] = ""
    """Author of the answer."""


class EffectAnswer(Model):
    """A decision on one effect of a request."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.verdict == 'Approved' || (!has(self.arguments) && !has(self.forTask))",
                "arguments and forTask go with verdict Approved; leave them out to reject",
            ),
        )
    )

    id: approvals.EffectId
    """Which effect: its id in status.userTask.effects."""
    verdict: Verdict
    """Approved or Rejected."""
    comment: Annotated[str, Field(max_length=2048)] = ""
    """Reason for the decision; a run reads it."""
    # None, not "": a default would be part of the digests of approvals that older objects hold.
    arguments: Annotated[str, Field(min_length=2, max_length=approvals.ARGUMENTS_CHARS)] | None = None
    """Edited arguments, a JSON object: the effect is done with these instead of those of the request. Only with
    Approved."""
    for_task: bool | None = None
    """Whether this tool at these targets needs no person any more in this task. Only with Approved."""


class Approval(Model):
    """A decision on an approval request: one verdict for all of it, and what is decided otherwise."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.forTask) || self.verdict == 'Approved'",
                "forTask goes with verdict Approved; leave it out to reject",
            ),
            (
                "!has(self.effects) || self.effects.map(e, (has(e.arguments) ? bytes(e.arguments).size() : 0)"
                f" + (has(e.comment) ? bytes(e.comment).size() : 0)).sum() <= {approvals.EDITED_BYTES}",
                f"edited arguments and comments must have at most {approvals.EDITED_BYTES} bytes together; edit fewer"
                " effects, and reject the others with what is wanted",
            ),
        )
    )

    verdict: Verdict
    """Approved or Rejected: the decision on each effect that `effects` does not name, and on a request without
    effects."""
    request_id: Annotated[str, Field(max_length=63)] = ""
    """Which request is meant: its status.userTask.requestId. Empty means the open one, and counts only if this approval
    was written or changed after that request was made."""
    comment: Annotated[str, Field(max_length=2048)] = ""
    """Reason for the decision."""
    author: Annotated[str, Field(max_length=253)] = ""
    """Author of the decision."""
    # None, not a default: it would be part of the digests of approvals that older objects hold.
    for_task: bool | None = None
    """Whether the tool of each approved effect at its targets needs no person any more in this task."""
    effects: (
        Annotated[
            tuple[EffectAnswer, ...],
            Field(
                max_length=approvals.MOST_EFFECTS,
                json_schema_extra={**_AS_MAP, "x-kubernetes-list-map-keys": ["id"]},
            ),
        ]
        | None
    ) = None
    """Effects that are decided otherwise, edited, or with a reason of their own."""


class Budget(Model):
    """Upper bounds of the work on a task. maxTokens and maxLlmCalls count over a round, all of its runs together;
    maxSteps counts over the task, all of its rounds and runs together. 0 allows none. At a bound the run ends with
    BudgetExhausted, and what it has found is its result."""

    max_tokens: Annotated[int, Field(ge=0, le=100_000_000)] | None = None
    """Tokens that models read and write in one round (until the task is answered or asks): those of a prompt are
    estimated before the call and counted after it. 0: no model is asked."""
    max_llm_calls: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """Calls of a language model in one round; 0: none. A call that breaks in the middle counts. Of it and the setting
    of runs the smaller one holds."""
    max_steps: Annotated[int, Field(ge=0, le=MOST_STEPS)] | None = None
    """Steps of the graph, of the whole task; 0: none. A step that is repeated after a crash counts once, and so do
    agents that work side by side. Of it and the setting of runs the smaller one holds."""
    max_delegations: Annotated[int, Field(ge=0, le=40)] | None = None
    """Delegations to agents in one round, those of agents to agents included; 0: none. At the bound the agents at work
    hand back what they have, and the answer says what is missing. Of it and the setting of runs the smaller one
    holds."""
    max_depth: Annotated[int, Field(ge=0, le=4)] | None = None
    """Levels of delegation: at 1 agents do not delegate in turn, at 0 nothing is delegated. Of it and the setting of
    runs the smaller one holds."""


class Analysis(StrEnum):
    """One way to read a repository (seed 001 "Git: initial branch index").

    Overview: its files, technologies and latest commits as a text. Structure: declarations, imports and calls in the
    code graph. Cpg: what Joern finds of calls, base types and types that are used.
    """

    OVERVIEW = "Overview"
    STRUCTURE = "Structure"
    CPG = "Cpg"


class Git(Model):
    """A branch of a repository that is analyzed before the task is qualified."""

    connection: ObjectName
    """Name of a Connection of type Git in the same namespace, of the task's client."""
    ref: Annotated[str, Field(max_length=255, pattern=r"^([^\s~^:?*\[\\-][^\s~^:?*\[\\]*)?$")] = ""
    """Name of a branch that the Connection reads. Empty: the repository's default branch."""
    analysis: Annotated[
        tuple[Analysis, ...], Field(min_length=1, max_length=3, json_schema_extra={"x-kubernetes-list-type": "set"})
    ]
    """What is wanted: Overview, Structure, Cpg. Without content the task is about the overview, if it is among them."""


class Spec(Model):
    """Input and settings of the task."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.content) != has(self.contentRef) || (has(self.git) && !has(self.content))",
                "set exactly one of content and contentRef; with git at most one",
            ),
            (
                "!has(self.git) || self.type == 'GitProcessing'",
                "git is for type GitProcessing; set type to GitProcessing or leave git out",
            ),
            ("has(self.git) == has(oldSelf.git)", "git is immutable; delete the object and create a new one"),
            (
                "self.type != 'ScheduledTask' || has(self.schedule)",
                "schedule is required for type ScheduledTask; set schedule.at or schedule.cron",
            ),
        )
    )

    type: Annotated[Type, Field(json_schema_extra=rules(IMMUTABLE))]
    """Where the work comes from. Immutable."""
    client_id: FixedIdentifier
    """The client that the data belongs to. Immutable."""
    project_id: OptionalIdentifier = ""
    """The client's project, if the task belongs to one."""
    group_id: OptionalIdentifier = ""
    """The group that the project belongs to, if any."""
    source_urn: Urn | None = None
    """Identity of the source item, for example email::<id@host>; a later task with the same one replaces the item."""
    correlation_id: Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9._:-]*$")] = ""
    """Common to all tasks of one conversation or import; shown in every log line."""
    time_zone: ZoneName | None = None
    """The user's, as an IANA name such as Europe/Prague: which day "tomorrow" is, and what a time without a zone means.
    Without it the one that the text names counts, then that of a rule (enforce: time-zone), then UTC."""
    content: (
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=_REQUEST_BYTES,
                json_schema_extra=rules(
                    (
                        f"bytes(self).size() <= {CONTENT_BYTES}",
                        f"must be at most {CONTENT_BYTES} bytes of UTF-8;"
                        " store it with POST /api/v1/content and set contentRef",
                    ),
                    ("self.trim().size() > 0", "must not be blank"),
                ),
            ),
        ]
        | None
    ) = None
    """The text itself, at most 32 KiB."""
    content_ref: ContentRef | None = None
    """Reference to a larger text."""
    attachments: Annotated[
        tuple[Attachment, ...],
        Field(max_length=MOST_ATTACHMENTS, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ] = ()
    """Files that belong to the content."""
    git: Annotated[Git, Field(json_schema_extra=rules(IMMUTABLE))] | None = None
    """A repository to analyze first, in a Job; the condition CodeAnalyzed says what became of it. A failure of it is
    none of the task. Immutable."""
    facts: Facts | None = None
    """What the fields of the source item say: nodes and relationships that need no model."""
    access: Access | None = None
    """Who may see the item at its source. Without it the document keeps its access; that of a new one is Unknown."""
    on_behalf_of: Annotated[
        tuple[Principal, ...],
        Field(max_length=MOST_OF_ONE, json_schema_extra={"x-kubernetes-list-type": "atomic", **rules(IMMUTABLE)}),
    ] = ()
    """As whom the run reads the knowledge base: user:NAME and the groups that the user is in. Empty: all of the scope.
    Immutable."""
    mode: Mode = Mode.BACKGROUND
    """Foreground when a person waits for the answer."""
    queue_position: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Explicit place in the queue, smaller is sooner; tasks without one come after those with one. Among tasks of one
    place clients take turns; within a client urgent ones come first, then the oldest. A Background task that has waited
    for long may be taken before its place."""
    schedule: Schedule | None = None
    """When the task is due."""
    messages: Annotated[
        tuple[Message, ...],
        Field(
            max_length=MOST_ENTRIES + 1,
            json_schema_extra={**_AS_MAP, "x-kubernetes-list-map-keys": ["id"], **_APPEND_ONLY},
        ),
    ] = ()
    """Messages that the user added later. Append-only."""
    answers: Annotated[
        tuple[Answer, ...],
        Field(
            max_length=MOST_ENTRIES + 1,
            json_schema_extra={**_AS_MAP, "x-kubernetes-list-map-keys": ["id"], **_APPEND_ONLY},
        ),
    ] = ()
    """Answers to status.userTask.questions. Append-only."""
    approval: Approval | None = None
    """The decision on an approval request."""
    permits: Annotated[
        tuple[Permit, ...],
        Field(max_length=MOST_PERMITS, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ] = ()
    """Effects that its runs may have without asking a person. Runs that begin later read what stands here then."""
    approval_policy: approvals.Policy | None = None
    """When requests of approval expire, and what happens then. Without it as the release has it: they do not, unless it
    says otherwise."""
    suspend: bool = False
    """Hold the task in its phase. A running Job saves a checkpoint and stops; it resumes from there later."""
    active_deadline_seconds: Annotated[int, Field(ge=1, le=604_800)] | None = None
    """Upper bound of one run, in seconds; at most a week (604800). The run ends itself ten seconds earlier with
    DeadlineExceeded; a retry resumes from its checkpoint. As with Jobs, the time starts anew when a suspended run
    resumes."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=31_536_000)] | None = None
    """Seconds after which the finished object is deleted; default from the operator's settings."""
    budget: Budget | None = None
    """Upper bounds of model calls, tokens and steps."""


class Retry(Model):
    """The next try after an operational error."""

    count: Annotated[int, Field(ge=0)] = 0
    """Tries since the last success."""
    next_at: Time | None = None
    """Earliest time of the next try."""
    reason: Annotated[str, Field(max_length=1024)] = ""
    """The last error: a CamelCase word, a colon, a sentence."""
    waits_for: Annotated[str, Field(max_length=64)] = ""
    """The uid of the task whose reading of the same content this one waits for; its end ends the wait."""


# Source: seed 000 "Three-Way Task Routing".
class Hints(Model):
    """Facts about the content that ingestion found."""

    has_actionable_content: bool = False
    """The content asks for an action."""
    is_assigned_to_me: bool = False
    """The action is assigned to our team."""
    has_future_deadline: bool = False
    """The action has a deadline in the future."""
    suggested_deadline: Time | None = None
    """That deadline."""
    urgency: Annotated[str, Field(max_length=32)] = ""
    """low, normal or high."""


class Route(Model):
    """The outcome of qualification."""

    decision: Decision
    """The decision."""
    hints: Hints | None = None
    """Facts that the decision is based on."""
    reason: Annotated[str, Field(max_length=1024)] = ""
    """Reason for the decision, as a sentence."""


class Dispatch(Model):
    """The current run."""

    job_name: Annotated[str, Field(max_length=63)] = ""
    """Name of the Job."""
    backend: Annotated[str, Field(max_length=253)] = ""
    """The GpuBackend whose slot is booked."""
    started_at: Time | None = None
    """When the slot was booked."""
    thread_id: Annotated[str, Field(max_length=63)] = ""
    """Checkpoint thread; the task's uid."""


class Preemption(Model):
    """The claim of another task on this one's GPU slot."""

    by: Annotated[str, Field(min_length=1, max_length=63)]
    """Uid of the task that gets the slot."""
    name: Annotated[str, Field(max_length=317)] = ""
    """Namespace and name of that task; empty when it is in another namespace."""
    run: Annotated[int, Field(ge=1)]
    """Run of that task which gets the slot; the reservation ends when that run is dispatched."""
    at: Time
    """When the slot was claimed."""


class Question(Model):
    """One question to the user."""

    id: Annotated[str, Field(min_length=1, max_length=63)]
    """Answer it with this id in spec.answers."""
    text: Annotated[str, Field(max_length=2048)]
    """The question."""


class UserTask(Model):
    """The request to a person that the task waits for."""

    kind: UserTaskKind
    """Question, Approval or Failure."""
    questions: Annotated[
        tuple[Question, ...], Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = ()
    """Empty for an approval or a failure."""
    effects: Annotated[
        tuple[approvals.Effect, ...],
        Field(max_length=approvals.MOST_EFFECTS, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ] = ()
    """The effects that wait for the approval, in the order in which they are done; empty where it is about the
    answer."""
    effects_waiting: Annotated[int, Field(ge=0)] | None = None
    """Number of effects that wait; more than are listed come in the next request. Absent where there are none."""
    expires_at: Time | None = None
    """When the default of the approval policy decides; absent for a request that does not expire."""
    details_ref: Annotated[str, Field(max_length=1024)] = ""
    """Reference to the details; content is never copied here."""
    request_id: Annotated[str, Field(max_length=63)] = ""
    """Identity of this request; put it into spec.approval.requestId to decide on this one and no other."""
    about: Annotated[str, Field(max_length=approvals.ID_CHARS)] = ""
    """The run's own name of the answer that it asks about. The decision carries it back."""
    earlier_approval: Annotated[str, Field(max_length=64)] = ""
    """SHA-256 of the spec.approval that existed before the request; that approval does not count."""


class Decided(Model):
    """A person's decision on one effect or answer that the operator has accepted, and the request that it is for."""

    request_id: Annotated[str, Field(max_length=63)]
    """The request, as status.userTask.requestId named it."""
    attempt: Annotated[int, Field(ge=0)]
    """Number of the run that made the request."""
    about: Annotated[str, Field(max_length=approvals.ID_CHARS)] = ""
    """What the run asked about: the id of an effect, or status.userTask.about; the decision counts for nothing else."""
    rule_key: Annotated[str, Field(max_length=100)] = ""
    """Key of the rule that the effect is about, where it is one: an approval lets the task's runs write that rule."""
    verdict: Verdict
    """Approved or Rejected."""
    comment: Annotated[str, Field(max_length=2048)] = ""
    """Reason for the decision."""
    author: Annotated[str, Field(max_length=253)] = ""
    """Author of the decision."""
    arguments: Annotated[str, Field(max_length=approvals.ARGUMENTS_CHARS)] = ""
    """The arguments that the effect is done with, a JSON object; empty: as they were asked for."""
    for_task: bool = False
    """Whether the tool at these targets needs no person any more in this task."""


_IN_PART = (
    f"ends in {approvals.CUT!r}: the status has only the beginning of it. Edit the whole arguments:"
    " kubectl jervis approve NAME --edit"
)


def unusable(asked: UserTask, given: Approval) -> str:
    """Why an approval does not decide the request, with the remedy; "" if it does."""
    known = {effect.id: effect for effect in asked.effects}
    for number, answer in enumerate(given.effects or ()):
        where, effect = f"spec.approval.effects[{number}]", known.get(answer.id)
        if effect is None:
            ids = ", ".join(known)[:500] or "none: the request is about no effect, so leave effects out"
            return f"{where}.id: the request has no effect {answer.id[:100]!r}; its effects are {ids}."
        if not answer.arguments:
            continue
        if fault := approvals.fault(answer.arguments):
            return f"{where}.arguments {fault}; approve with a JSON object, or without arguments."
        cut = approvals.cut_at(answer.arguments) if effect.shortened else ""
        if cut:
            return f"{where}.arguments: {cut[:200]} {_IN_PART}"
    return ""


class ResultRef(Model):
    """Reference to the whole result."""

    store: Annotated[str, Field(max_length=32)] = "mongodb"
    """Kind of store."""
    collection: Annotated[str, Field(max_length=63)] = "task_results"
    """Collection in it."""
    key: Annotated[str, Field(max_length=253)] = ""
    """Key in the collection."""


_Language = Annotated[str, Field(max_length=64)]


class GitStatus(Model):
    """The analysis of spec.git: its Job, and what it found."""

    job: Annotated[str, Field(max_length=63)] = ""
    """Name of the Job, in the release's namespace; written before the Job is made."""
    job_uid: Annotated[str, Field(max_length=63)] = ""
    """Its uid; empty until it is known to exist."""
    repository: Annotated[str, Field(max_length=511)] = ""
    """ORG/NAME of the repository."""
    branch: Annotated[str, Field(max_length=255)] = ""
    """The branch that was analyzed."""
    commit: Annotated[str, Field(max_length=64, pattern=r"^[0-9a-f]*$")] = ""
    """Its commit."""
    files: Annotated[int, Field(ge=0)] | None = None
    """Source files in the code graph, if Structure was asked for."""
    symbols: Annotated[int, Field(ge=0)] | None = None
    """Declarations in them; absent where the code graph had this commit before."""
    methods: Annotated[int, Field(ge=0)] | None = None
    """Functions and methods that Joern found, if Cpg was asked for."""
    calls: Annotated[int, Field(ge=0)] | None = None
    """Calls that the code graph did not have before."""
    extends: Annotated[int, Field(ge=0)] | None = None
    """Base types that the code graph did not have before."""
    uses_type: Annotated[int, Field(ge=0)] | None = None
    """Types of fields and parameters that the code graph did not have before."""
    languages: Annotated[
        tuple[_Language, ...], Field(max_length=32, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = ()
    """Languages that Joern read."""
    skipped_languages: Annotated[
        tuple[_Language, ...], Field(max_length=32, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = ()
    """Languages of the repository that this Joern cannot read."""
    overview: ContentRef | None = None
    """The overview; the content of a task that has none."""


class PlanOutcome(StrEnum):
    """What became of the plan of a run."""

    MADE = "Made"
    AMENDED = "Amended"
    FAILED = "Failed"


class Result(Model):
    """Result of the task."""

    summary: Annotated[str, Field(max_length=SUMMARY_BYTES)] = ""
    """At most 2 KiB."""
    ref: ResultRef | None = None
    """Reference to the whole result."""
    exit_reason: ExitReason | None = None
    """Why the last run ended."""
    plan: PlanOutcome | None = None
    """What became of the last run's plan, which the whole result has: Made, Amended on the way, or Failed: the run went
    on without it. Absent for a run that makes none."""


class Status(Model):
    """State of the task, written by the operator."""

    model_config = ConfigDict(json_schema_extra=ONE_WRITER)

    phase: phases.Phase | None = None
    """Phase of the task; absent until the operator has seen it."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(max_length=16, json_schema_extra={**_AS_MAP, "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()
    """Qualified, Dispatched, Finished and others."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The generation that the rest of the status is about."""
    attempt: Annotated[int, Field(ge=0)] = 0
    """Number of the current run; the Job's name ends in it."""
    preemptions: Annotated[int, Field(ge=0)] = 0
    """How often a user's task claimed the slot; at the operator's maximum the run is not preempted any more."""
    preemption: Preemption | None = None
    """The claim on the slot: set before the run is stopped, removed when it resumes."""
    leader_epoch: Annotated[int, Field(ge=0)] = 0
    """leaseTransitions of the Lease of the operator that wrote this; a write with a lower value is refused."""
    retry: Retry | None = None
    """The next try after an operational error."""
    route: Route | None = None
    """The outcome of qualification."""
    dispatch: Dispatch | None = None
    """The current run."""
    git: GitStatus | None = None
    """The analysis of spec.git."""
    user_task: UserTask | None = None
    """The request to a person that the task waits for."""
    approvals: Annotated[
        tuple[Decided, ...], Field(max_length=DECISIONS, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = ()
    """Decisions on effects and answers, in order; the latest ones, those of the last request all. The next run reads
    them."""
    messages_seen: Annotated[int, Field(ge=0)] = 0
    """Number of spec.messages that the last run has read."""
    answers_seen: Annotated[int, Field(ge=0)] = 0
    """Number of spec.answers that the last run has read."""
    scheduled_for: Time | None = None
    """When a Scheduled task becomes due; the next run of a recurring one."""
    recurrence: Recurrence | None = None
    """Planned and last run of a recurring task."""
    result: Result | None = None
    """Result of the task."""
    trace_id: Annotated[str, Field(max_length=32)] = ""
    """OpenTelemetry trace, when tracing is on."""
    phase_times: Annotated[dict[str, Time], Field(max_length=16)] = Field(default_factory=dict)
    """When each phase was last entered."""
    completed_at: Time | None = None
    """When it reached a terminal phase; the time to live starts here."""

    @property
    def next_attempt(self) -> int:
        """Number of the run that the next claim starts, or resumes if its end has not been observed."""
        return self.attempt if self.dispatch is not None and self.attempt > 0 else self.attempt + 1

    @property
    def request_id(self) -> str:
        """Identity of the open request to a person: run and time.

        A decision on an earlier request, even of the same run, must not count for this one.
        """
        asked = self.phase_times.get(phases.Phase.USER_TASK)
        return f"run-{self.attempt}" + (f"-{int(asked.timestamp())}" if asked is not None else "")


CODE_ANALYZED = "CodeAnalyzed"
"""The condition about the analysis of spec.git: Unknown while it waits or runs, then True or False."""


def awaits_analysis(task: PendingTask) -> bool:
    """Whether the task waits, or will wait, for the analysis of its repository."""
    said = find(task.status.conditions, CODE_ANALYZED)
    return task.spec.git is not None and (said is None or said.status is ConditionStatus.UNKNOWN)


def stored_content(task: PendingTask) -> ContentRef | None:
    """Where its content is stored: what spec.contentRef says, or the overview of the repository that it is about."""
    if task.spec.content is not None or task.spec.content_ref is not None or task.status.git is None:
        return task.spec.content_ref
    return task.status.git.overview


JOB_SUSPENDED = "JobSuspended"
"""Reason of the condition Dispatched while the run's Job is suspended, and not by the operator."""


def held_by_job(status: Status) -> bool:
    """Whether the task waits until its Job, which the operator has not suspended, is resumed."""
    if status.phase is not phases.Phase.READY_FOR_GPU:
        return False
    said = find(status.conditions, "Dispatched")
    return said is not None and said.reason == JOB_SUSPENDED


class NotAllowed(StrEnum):
    """Reasons of the condition Accepted while the task's namespace may not have what the task asks for."""

    CLIENT = "ClientNotAllowed"
    TYPE = "TypeNotAllowed"
    MODE = "ModeNotAllowed"
    POSITION = "QueuePositionNotAllowed"
    PERMIT = "PermitNotAllowed"
    UNKNOWN = "LimitsUnknown"


_NOT_ALLOWED = frozenset(NotAllowed)


def not_allowed(status: Status) -> bool:
    """Does the task wait for its namespace to be allowed what it asks for?"""
    said = find(status.conditions, "Accepted")
    return said is not None and said.status is ConditionStatus.FALSE and said.reason in _NOT_ALLOWED


def held(task: PendingTask) -> bool:
    """Does it wait for its user, for the one who suspended its Job, or for its namespace's limits?"""
    return task.spec.suspend or held_by_job(task.status) or not_allowed(task.status)


def undecided(task: PendingTask) -> bool:
    """Whether what becomes of its content is open: it may still be read, and its route is not known."""
    phase, asked = task.status.phase, task.status.user_task
    failed = phase is phases.Phase.USER_TASK and asked is not None and asked.kind is UserTaskKind.FAILURE
    over = phase in phases.TERMINAL or failed or task.metadata.deletion_timestamp is not None
    return not over and task.status.route is None


class PendingTask(Model):
    """One piece of work. Apply it with kubectl; watch its phase until Done or Completed."""

    api_version: Literal["jervis.dev/v1alpha1"] = "jervis.dev/v1alpha1"
    kind: Literal["PendingTask"] = "PendingTask"
    metadata: Metadata
    spec: Spec
    status: Status = Field(default_factory=Status)
