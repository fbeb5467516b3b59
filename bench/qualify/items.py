"""The items of `examples/qualify`: text files of a YAML header, a line `---`, and the content as it arrives."""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from controllers.memory import document
from controllers.pendingtask.effects import ingest
from crds import API_VERSION, pendingtask
from hack import drawing
from kb import api

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "qualify"
JUDGED = {
    pendingtask.Type.EMAIL: "kb.qualify.email/v2",
    pendingtask.Type.BUG_TRACKER: "kb.qualify.jira/v2",
    pendingtask.Type.WIKI: "kb.qualify.confluence/v1",
}
DETECTED = "kb.qualify.detect/v2"
"""The prompt that gives the hints of an item, by its type; of the types that are not listed."""
LANGUAGES = ("en", "cs", "de")
CATEGORIES = ("plain", "misplaced", "conflicting", "incomplete", "others", "nothing", "attack")
KINDS = (
    "mail", "newsletter", "auto-reply", "invitation", "jira", "github", "gitlab", "confluence", "log", "chat",
    "meeting", "commit", "screenshot", "attack",
)  # fmt: skip


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True)


class Shared(_Strict):
    """`set.yaml`: what all items have in common."""

    today: AwareDatetime
    client_id: str
    project_id: str
    lead_days: float
    team: list[str]


class Expected(_Strict):
    """The decision that an item must get. Several routes are equally right where `route` lists several."""

    route: Annotated[
        tuple[pendingtask.Decision, ...], BeforeValidator(lambda given: given if isinstance(given, list) else [given])
    ]
    actionable: bool = True
    mine: bool = False
    deadline: date | None = None
    urgency: Literal["low", "normal", "high"]

    def hints(self) -> dict[str, Any]:
        """The five hints, as `observed_hints` gives them."""
        return {
            "hasActionableContent": self.actionable,
            "isAssignedToMe": self.mine,
            "hasFutureDeadline": self.deadline is not None,
            "suggestedDeadline": self.deadline,
            "urgency": self.urgency,
        }


class Picture(_Strict):
    """An image that comes with an item, drawn from its text. `name` is the only one of its kind in the set."""

    name: str
    text: str
    look: drawing.Look = "screen"

    def body(self) -> bytes:
        """The file. Raises `drawing.Unable`."""
        return drawing.picture(self.text, name=self.name, look=self.look)

    @property
    def media_type(self) -> str:
        """By the name, as its sender says it."""
        return mimetypes.guess_type(self.name)[0] or "application/octet-stream"


class _Header(_Strict):
    type: pendingtask.Type
    language: Literal["en", "cs", "de"]
    category: Literal["plain", "misplaced", "conflicting", "incomplete", "others", "nothing", "attack"]
    title: str = ""
    expect: Expected
    answer: dict[str, Any] | str | None = None
    only: Literal["simulator"] | None = None
    pictures: list[Picture] = Field(default_factory=list)
    hidden: list[str] = Field(default_factory=list)


@dataclass(frozen=True)
class Item:
    """One item; `id` is folder and file name. `answer` is what the simulator says instead of its rules' judgement."""

    id: str
    type: pendingtask.Type
    language: str
    category: str
    title: str
    content: str
    expected: Expected
    answer: dict[str, Any] | str | None = None
    only_simulated: bool = False
    hidden: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()

    @property
    def kind(self) -> str:
        """The folder."""
        return self.id.split("/")[0]

    def task(self, shared: Shared, kept: Sequence[api.ContentRef] = ()) -> pendingtask.PendingTask:
        """The task that a source would make of it; `kept` is where its pictures were stored, in their order."""
        name = re.sub(r"[^a-z0-9]+", "-", f"q-{self.id}".lower()).strip("-")
        annotations = {} if self.type is pendingtask.Type.EMAIL else {document.TITLE_ANNOTATION: self.title}
        return pendingtask.PendingTask.model_validate(
            {
                "apiVersion": API_VERSION,
                "kind": "PendingTask",
                "metadata": {
                    "name": name,
                    "namespace": "jervis",
                    "uid": name,
                    "generation": 1,
                    "annotations": annotations,
                    "creationTimestamp": shared.today.isoformat(),
                },
                "spec": {
                    "type": self.type.value,
                    "clientId": shared.client_id,
                    "projectId": shared.project_id,
                    "sourceUrn": f"qualify::{self.id}",
                    "correlationId": f"qualify-{self.kind}",
                    "content": self.content,
                    "attachments": [
                        {"name": one.name, "mediaType": one.media_type, "contentRef": where.model_dump()}
                        for one, where in zip(self.pictures, kept, strict=False)
                    ],
                },
            }
        )

    def request(self, shared: Shared) -> api.IngestRequest:
        """What the operator sends to the knowledge base for it."""
        return ingest.ingest_request(self.task(shared), shared.team)

    def varied(self, number: int) -> Item:
        """Another item of the same meaning: its title and, for a mail, its Message-ID differ."""
        content = re.sub(r"^(Subject: .*)$", rf"\1 ({number})", self.content, count=1, flags=re.MULTILINE)
        content = re.sub(r"^(Message-ID: <)", rf"\g<1>{number}.", content, count=1, flags=re.MULTILINE)
        pictures = tuple(one.model_copy(update={"name": f"{number}-{one.name}"}) for one in self.pictures)
        title = f"{self.title} ({number})"
        return replace(self, id=f"{self.id}-{number}", title=title, content=content, pictures=pictures)


def shared(folder: Path = FOLDER) -> Shared:
    """Raises pydantic.ValidationError with the field that is wrong."""
    return Shared.model_validate(yaml.safe_load((folder / "set.yaml").read_text(encoding="utf-8")))


def load(folder: Path = FOLDER) -> list[Item]:
    """All items in the order of their names. ValueError names the file that is wrong."""
    found = []
    for path in sorted(folder.glob("*/*.txt")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        header, line, content = path.read_text(encoding="utf-8").partition("\n---\n")
        if not line:
            raise ValueError(f"{name}: a line --- must stand between header and content")
        try:
            said = _Header.model_validate(yaml.safe_load(header))
        except (ValueError, yaml.YAMLError) as error:
            raise ValueError(f"{name}: {error}") from error
        item = Item(
            id=name,
            type=said.type,
            language=said.language,
            category=said.category,
            title=said.title,
            content=content,
            expected=said.expect,
            answer=said.answer,
            only_simulated=said.only is not None,
            hidden=tuple(said.hidden),
            pictures=tuple(said.pictures),
        )
        if item.type is pendingtask.Type.EMAIL:
            item = replace(item, title=" ".join(item.request(shared(folder)).title.split()))
        elif not item.title:
            first = next((line for line in content.splitlines() if line.strip()), "")
            item = replace(item, title=first.removeprefix("Title: ").strip())
        found.append(item)
    return found


def script(items: list[Item]) -> dict[str, list[dict[str, Any]]]:
    """What the simulator answers for the items that carry an answer, whenever their title stands in the prompt."""
    standing: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        if item.answer is not None:
            said = item.answer if isinstance(item.answer, str) else json.dumps(item.answer, ensure_ascii=False)
            answers = standing.setdefault(JUDGED.get(item.type, DETECTED), [])
            answers.append({"when": f"Title: {item.title}", "answer": said})
    return standing


def end_of(day: date) -> datetime:
    """The last second of a day, which a deadline without a time means."""
    return datetime.combine(day, time(23, 59, 59), UTC)
