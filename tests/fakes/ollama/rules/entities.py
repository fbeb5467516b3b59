"""Things a text names: people, addresses, issues, files, classes, methods, commits, organisations, products, days."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from tests.fakes.ollama.rules import dates, people, text, vocabulary

_EXTENSIONS = (
    "py|kt|kts|java|go|rs|ts|tsx|js|jsx|c|h|cc|cpp|hpp|cs|rb|php|swift|scala|sql|sh|yaml|yml|json|toml|xml|md|txt|html|"
    "css|proto|gradle|properties|ini|cfg|conf|tf|ipynb|csv|pdf|docx|xlsx|pptx|lock"
)
_FOLDERS = r"(?<![\w@/.])((?:[\w.\-]+/)*"
_FILE = re.compile(rf"{_FOLDERS}(?:[\w\-][\w.\-]*\.(?:{_EXTENSIONS})|Dockerfile|Makefile))(?![\w/])")
_ISSUE = re.compile(r"(?<![\w\-])([A-Z][A-Z0-9]{1,9}-\d{1,6})(?![\w\-])")
_NOT_ISSUES = re.compile(r"^(?:Q[1-4]|UTF|SHA|ISO|RFC|CVE|HTTP|TLS|AES|MD|UTC|GMT|P|Q|H|COVID|MP|X|CP|BASE|PEP|JSR)-\d")
_COMMIT = re.compile(r"(?<![\w\-/.])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])([0-9a-f]{40}|[0-9a-f]{7,12})(?![\w\-])")
_METHOD = re.compile(r"\b((?:[A-Z]\w*\.)?[a-z_]\w*)\(\)")
_CLASS = re.compile(r"(?<![\w./@])([A-Z][a-z]+[a-z0-9]*(?:[A-Z][a-z0-9]*)+)(?![\w@]|\.(?:" + _EXTENSIONS + r")\b)")
_SERVICE = re.compile(
    r"(?<![\w/@.\-])([a-z][a-z0-9]*(?:-[a-z0-9]+)*-"
    r"(?:\d{1,3}|gateway|service|api|server|node|db|database|worker|operator|router|scheduler|cluster))(?![\w\-]|\.\w)"
)
_CAPITAL = r"[A-ZÀ-Ž][\wÀ-ž'\u2019&\-]*[\wÀ-ž]"
_PHRASE = re.compile(rf"(?<![\w@./\-])({_CAPITAL}(?:[ ](?:{_CAPITAL}|[A-Z]\.)){{0,3}})(?![\w@])")
_ORGANIZATION = re.compile(
    r"\b(?:Inc|Ltd|LLC|GmbH|AG|Corp|Corporation|Company|Group|Bank|University|Institute|Foundation|Ministry|Department|"
    r"Team|Committee|Agency|Office|Association|Airlines|Systems|Solutions|Technologies|Labs?|Partners|Consulting|Council|"
    r"Hospital|School|s\.r\.o)\.?$"
)
_PRODUCTS = re.compile(
    r"^(?:GitHub|GitLab|JavaScript|TypeScript|PostgreSQL|MongoDB|ArangoDB|MySQL|SQLite|OpenShift|OpenAI|LangGraph|DevOps|"
    r"FastAPI|PyPI|YouTube|LinkedIn|Kubernetes|Weaviate|Ollama|Kafka|Redis|Jira|Confluence|Docker|Helm|Prometheus|"
    r"Grafana|Python|Java|Kotlin|Linux|Windows|Terraform|Ansible|Jenkins|Nginx|Elasticsearch|RabbitMQ|Slack|Outlook|"
    r"Excel|React|Angular|Jervis)$"
)
_PERSON_BEFORE = re.compile(
    r"(?:\b(?:assigned to|ask|cc|thanks,?|regards,?|mr|mrs|ms|dr|contact|colleague|reported by|written by|met)\.?\s+)$",
    re.IGNORECASE,
)
_GROUP = re.compile(
    r"\b(?:team|desk|support|newsletter|office|department|group|no-?reply|bot|alerts?)\b", re.IGNORECASE
)
_HEADING = re.compile(r"^[A-Z][\w\- ]{0,30}:\s*(?:(?:Re|Fwd?):\s*)*$")
_CALENDAR = re.compile(r"^(?:Q[1-4]|[A-Z]{1,2}\d?|V?\d+)$")


@dataclass(frozen=True)
class Entity:
    """One thing. `key` is what mentions of the same thing share."""

    name: str
    type: str
    description: str

    @property
    def key(self) -> tuple[str, str]:
        return (self.type, self.name.lower())


@dataclass(frozen=True)
class Mention:
    """Where in the text an entity stands."""

    entity: Entity
    start: int
    end: int


def find(document: str, today: date | None) -> list[Mention]:
    """Mentions in order of appearance, none overlapping; more certain kinds win over guesses by capital letters."""
    taken: list[Mention] = []

    def add(name: str, kind: str, description: str, start: int, end: int) -> None:
        if not any(start < other.end and other.start < end for other in taken):
            taken.append(Mention(Entity(name, kind, description), start, end))

    for match in people.NAMED_ADDRESS.finditer(document):
        add(match.group(1), _mailbox(*match.groups()), f"mail address {match.group(2).lower()}", *match.span())
    for match in people.ADDRESS.finditer(document):
        add(match.group().lower(), "email_address", "mail address", *match.span())
    named = [mention.entity for mention in taken if " " in mention.entity.name]
    for match in people.MENTION.finditer(document):
        whole = next((one for one in named if document.startswith(one.name, match.start(1))), None)
        if whole is not None:  # "@Platform Team", where the text says elsewhere who that is
            add(whole.name, whole.type, whole.description, match.start(), match.start(1) + len(whole.name))
        add(match.group(1), "person", f"mentioned as @{match.group(1)}", *match.span())
    for match in _FILE.finditer(document):
        add(match.group(1), "file", "file named in the text", *match.span())
    for match in _ISSUE.finditer(document):
        if not _NOT_ISSUES.match(match.group(1)):
            add(match.group(1), "jira_issue", "issue key", *match.span())
    for match in _METHOD.finditer(document):
        add(match.group(1), "method", "method named in the text", *match.span())
    for match in _SERVICE.finditer(document):
        add(match.group(1), "service", "service or host named in the text", *match.span())
    for match in _COMMIT.finditer(document):
        add(match.group(1), "commit", "commit hash", *match.span())
    for found in dates.find(document, today):
        if found.relative and not dates.is_due(document[: found.start][-60:]):
            continue  # "on Tuesday" in a report is a day that has passed
        add(found.day.isoformat(), "date", f'written as "{document[found.start : found.end]}"', found.start, found.end)
    for match in _CLASS.finditer(document):
        kind = "product" if _PRODUCTS.match(match.group(1)) else "class"
        add(match.group(1), kind, f"{kind} named in the text", *match.span())
    for name, kind, description, start, end in _phrases(
        document, {mention.entity.name: mention.entity for mention in taken}
    ):
        add(name, kind, description, start, end)
    return sorted(_same_people(taken), key=lambda mention: mention.start)


def _mailbox(name: str, address: str) -> str:
    """Whether a person or a group reads it: `jan.dvorak@` is a person's, `platform-team@` and lists are not."""
    local, _, domain = address.lower().partition("@")
    if _GROUP.search(name) or domain.startswith("lists."):
        return "organization"
    return "person" if people.fold(name.split()[0]) in vocabulary.FIRST_NAMES or "." in local else "organization"


def _phrases(document: str, known: dict[str, Entity]) -> Iterator[tuple[str, str, str, int, int]]:
    """(name, type, description, start, end) of what only its capital letters mark; a known name keeps its type."""
    for start, end in text.spans(document):
        sentence = document[start:end]
        for match in _PHRASE.finditer(sentence):
            phrase, offset = _trim(match.group(1))
            if not phrase:
                continue
            first = start + match.start(1) + offset
            before = sentence[: match.start(1) + offset]
            same = known.get(phrase)
            kind = _kind(phrase, before, at_start=not before or bool(_HEADING.search(before)))
            if same is not None:
                yield same.name, same.type, same.description, first, first + len(phrase)
            elif kind:
                yield phrase, kind, f"{kind} named in the text", first, first + len(phrase)


def _trim(phrase: str) -> tuple[str, int]:
    """Without ordinary words that only stand there in capitals, at either end: (what is left, where it begins)."""
    words, offset = phrase.split(" "), 0
    while words and (_full_name(words[1:]) or (words[0].lower() in vocabulary.NOT_NAMES and not _full_name(words))):
        offset += len(words.pop(0)) + 1
    while words and words[-1].lower() in vocabulary.NOT_NAMES:
        words.pop()
    for place, word in enumerate(words):
        if place and word.lower() in vocabulary.NOT_NAMES:
            words = words[:place]
            break
    return " ".join(words), offset


def _full_name(words: list[str]) -> bool:
    """`Jan Dvorak` is a person, although `Jan` is a month too."""
    return len(words) > 1 and people.fold(words[0]) in vocabulary.FIRST_NAMES


def _kind(phrase: str, before: str, at_start: bool) -> str:
    """person, organization, product or concept; empty when a capital letter alone says nothing."""
    words = phrase.split()
    if _PRODUCTS.match(phrase):
        return "product"
    if _ORGANIZATION.search(phrase) and len(words) > 1:
        return "organization"
    cued = len(words) > 1 and _PERSON_BEFORE.search(before) is not None
    named = people.fold(words[0]) in vocabulary.FIRST_NAMES or cued
    if named and len(words) <= 3 and all(word[0].isupper() and not word.isupper() for word in words):
        return "person" if len(words) > 1 or not at_start else ""
    if len(words) > 1:
        return "product" if any(_PRODUCTS.match(word) for word in words) else "concept"
    if at_start or len(phrase) < 3 or _CALENDAR.match(phrase) or phrase.isupper():
        return ""
    return "concept"


def _same_people(mentions: list[Mention]) -> list[Mention]:
    """`Jana` and `@jana` are `Jana Novak` when the text names exactly one Jana in full."""
    full: dict[str, set[Entity]] = {}
    for mention in mentions:
        if mention.entity.type == "person" and " " in mention.entity.name:
            full.setdefault(mention.entity.name.split()[0].lower(), set()).add(mention.entity)
    joined = []
    for mention in mentions:
        owners = full.get(re.split(r"[._\-]", mention.entity.name.lower())[0], set())
        names = {owner.name for owner in owners}
        if mention.entity.type == "person" and " " not in mention.entity.name and len(names) == 1:
            mention = Mention(min(owners, key=lambda owner: owner.description), mention.start, mention.end)
        joined.append(mention)
    return joined
