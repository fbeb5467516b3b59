"""One link, read once: what is known of it, whether it may be opened, its page as a document with its edges.

    known already -> patterns -> address -> (uncertain: rules, the model, a person) -> fetch -> document, found_in

The links of the page are mentioned in its metadata and never followed. A repeated call does what is missing. Source:
seed 000 "Link Handling Flow".
"""

from __future__ import annotations

import asyncio
import functools
import time
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import replace

import pydantic
import structlog

from contracts.rules import links
from crds import errors as root
from crds import priority, scope
from kb import api, errors, identity, metrics, paging
from kb.content import store as content
from kb.crawl import address, fetch, frontier, page
from kb.extract import answers, caller_facts, document_node, links_in_text
from kb.files import reader, sniff
from kb.graph import store as graph
from kb.ingest import intake, source
from kb.links import hosts, patterns, prompt, safety
from kb.rules import enforce, fetching, linking, overrides

log = structlog.get_logger(__name__)

KIND = "link"
BY = "qualifier"
"""Who has decided a pattern that the model's answer made."""
_FILES = frozenset({sniff.Type.PDF.value, *(one.value for one in sniff.Type if one.zipped)})
"""What is read behind a link beside pages, as an attachment would be: its bytes must be what its site says."""
_MENTIONED_CHARS = 8000
_LATER = frozenset({408, 425, 429})
_NOTHING = api.Hints(
    has_actionable_content=False, is_assigned_to_me=False, has_future_deadline=False, urgency="low", reason=""
)


def stated(text: str) -> api.LinkSource:
    """What the content of a task says about its link: JSON, or a text in which the first URL is the link.

    Raises `kb.errors.Invalid` for a text without one.
    """
    if text.lstrip().startswith("{"):
        try:
            return api.LinkSource.model_validate_json(text)
        except pydantic.ValidationError:
            pass  # a text that merely begins so
    found = links_in_text.find(text, most=1)
    if not found:
        raise errors.Invalid(
            "the content has no link", field="content", remedy="Give a URL that begins with https:// or http://."
        )
    return api.LinkSource(url=found[0].url, before=found[0].before, after=found[0].after)


class Reader:
    """`judge` is the fetcher's own; `rules` bound hosts and decide about links; `asked` asks about the rest.

    `instead` is asked where no backend has the model of `asked`. `files` reads what is behind links that is no page, of
    at most `file_bytes`.
    """

    def __init__(
        self,
        kept: patterns.Patterns,
        judge: address.Judge,
        fetcher: fetch.Fetcher,
        graph_store: graph.Store,
        stored: content.Store,
        way: intake.Intake,
        asked: answers.Answers,
        meters: metrics.Metrics,
        rules: enforce.Port,
        files: reader.Reader | None = None,
        file_bytes: int = 32 << 20,
        monotonic: Callable[[], float] = time.monotonic,
        instead: answers.Answers | None = None,
    ) -> None:
        self._patterns = kept
        self._rules = rules
        self._judge = judge
        self._fetcher = fetcher.taking(_FILES, file_bytes) if files is not None else fetcher
        self._files = files
        self._monotonic = monotonic
        self._hosts = hosts.Hosts(monotonic)
        self._graph = graph_store
        self._stored = stored
        self._intake = way
        self._answers = asked
        self._instead = instead
        self._meters = meters

    async def read(self, request: api.LinkRequest, urgency: priority.Priority) -> api.IngestReply:
        """The link of a task. The document's source URN is that of the link, whatever the request's is.

        Raises `kb.errors.Invalid` for content without a link, and what the stores and the router raise. What the site
        does is no error: the reply says it.
        """
        text = await source.text(request, self._stored, max_chars=1_000_000)
        about = stated(text)
        url = links_in_text.normalise(about.url)
        if url is None:
            report = api.LinkReport(
                url=about.url[: links_in_text.URL_CHARS],
                outcome=api.LinkOutcome.UNSAFE,
                reason="It is no plain web address (https:// or http:// and a host, without a login).",
            )
            reply = _reply(request.source_urn, report)
        else:
            reply = await self._judged(request, about, url, urgency)
        assert reply.link is not None
        self._meters.links.labels(reply.link.outcome.value).inc()
        log.info("link", outcome=reply.link.outcome.value, document=identity.document(request.scope, reply.source_urn))
        # Whether a link may be opened is asked before its page is read, and so before its route is decided.
        return reply if reply.link.outcome is api.LinkOutcome.UNCLEAR else await self._routed(request, text, reply)

    async def _routed(self, request: api.LinkRequest, text: str, reply: api.IngestReply) -> api.IngestReply:
        """The reply with the last word of the rules about a link's task with this text. Raises what they raise."""
        sent = request.document().model_copy(update={"source_urn": reply.source_urn})
        matches = await asyncio.to_thread(enforce.match_rules, await self._rules.in_force(request.scope), sent, text)
        # No model judges the page and none is steered: lines about that decide nothing here.
        decided, rules = replace(matches, rules_too_long=(), overrides=overrides.NONE).apply_rules(reply.hints)
        if decided.route is not None:
            self._meters.ruled.labels(decided.route).inc()
        return reply.model_copy(update={"hints": decided, "rules": [*reply.rules, *rules]})

    async def _judged(
        self, request: api.LinkRequest, about: api.LinkSource, url: str, urgency: priority.Priority
    ) -> api.IngestReply:
        urn = f"{api.LINK_URN}{url}"
        said = functools.partial(_said, urn, url)
        if await self._known(request.scope, (urn, url)):
            return said(api.LinkOutcome.KNOWN, "its page is a document of the knowledge base already")
        held = await self._patterns.holding(request.scope)
        found = safety.qualify(url, held, about.before, about.after)
        if found.verdict is safety.Verdict.BLOCKED:
            return said(api.LinkOutcome.BLOCKED, found.reason)
        if found.verdict is safety.Verdict.UNSAFE:
            return said(api.LinkOutcome.UNSAFE, found.reason)
        host = urllib.parse.urlsplit(url).netloc
        if closed := self._hosts.closed(host):
            why = f"{host} has not answered in time, and is not asked for {closed:.0f} seconds"
            return said(api.LinkOutcome.UNREACHABLE, why)
        try:
            await self._judge.target(url)
        except errors.Invalid as error:
            return said(api.LinkOutcome.UNSAFE, error.message)
        except errors.Away as error:
            self._hosts.answered(host, away=True, seconds=0.0)
            return said(api.LinkOutcome.UNREACHABLE, error.message)
        against = await self._against(request, about, url, found.verdict, urgency)
        if against is not None:
            return said(*against)
        return await self._fetched(request.document(), about, url, held, urgency)

    async def _against(
        self,
        request: api.LinkRequest,
        about: api.LinkSource,
        url: str,
        verdict: safety.Verdict,
        urgency: priority.Priority,
    ) -> tuple[api.LinkOutcome, str] | None:
        """Why a link that patterns do not close is not opened: a rule, a person, the model, in this order."""
        ruled = linking.decide(await self._rules.in_force(request.scope), request.scope, about, url)
        effect = ruled.effect if ruled is not None else None
        if ruled is not None and effect is links.Effect.LEAVE:
            return api.LinkOutcome.UNSAFE, f"{ruled.rules} leaves it"
        if request.answer is not None:
            return await self._answered(request, url, request.answer)
        if ruled is not None and effect is links.Effect.ASK:
            return api.LinkOutcome.UNCLEAR, f"{ruled.rules} asks a person"
        if verdict is not safety.Verdict.UNCERTAIN or effect is links.Effect.OPEN:
            return None
        answer = await self._ask(request.scope, about, url, urgency)
        if answer.decision == "leave":
            parts = urllib.parse.urlsplit(url)
            # With any parameters, because those are often its reader's own.
            page = f"{parts.netloc}{parts.path}*"
            await self._grow(request.scope, page, api.LinkList.UNSAFE, answer.reason, BY)
            return api.LinkOutcome.UNSAFE, f"the model advises against it: {answer.reason}"
        return (api.LinkOutcome.UNCLEAR, answer.reason) if answer.decision == "ask" else None

    async def _answered(
        self, request: api.LinkRequest, url: str, answer: api.LinkAnswer
    ) -> tuple[api.LinkOutcome, str] | None:
        """What a person's answer does; None: the link is opened, within the limits that hold for all."""
        by, host = request.answered_by.strip()[:200] or "a person", urllib.parse.urlsplit(url).netloc
        opens = answer in (api.LinkAnswer.YES, api.LinkAnswer.ALWAYS)
        if answer in (api.LinkAnswer.ALWAYS, api.LinkAnswer.NEVER):
            listed = api.LinkList.SAFE if opens else api.LinkList.UNSAFE
            await self._grow(request.scope, host, listed, f"The answer about {url}"[:1000], by)
        return None if opens else (api.LinkOutcome.UNSAFE, f"{by} has said that it is not to be opened")

    async def _known(self, owner: scope.Scope, urns: Sequence[str]) -> bool:
        """Whether a page is a document of the scope, or of a wider one that it sees; a crawl names it by its URL."""
        client = owner.model_copy(update={"project_id": "", "group_id": ""})
        group = owner.model_copy(update={"project_id": ""})
        for where in dict.fromkeys((owner, group, client, scope.Scope(client_id=""))):
            for urn in urns:
                document_id = identity.document(where, urn)
                if any(one.id == document_id for one in await self._graph.versions(where, document_id)):
                    return True
        return False

    async def _ask(
        self, owner: scope.Scope, about: api.LinkSource, url: str, urgency: priority.Priority
    ) -> prompt.Answer:
        question = prompt.about(url, about)
        try:
            try:
                return await self._answers.ask(question, prompt.Answer, urgency, owner)
            except errors.Unconfigured:
                if self._instead is None:
                    raise
                return await self._instead.ask(question, prompt.Answer, urgency, owner)
        except errors.Unusable as error:
            return prompt.Answer(decision="ask", reason=error.message[:1000])

    async def _grow(self, owner: scope.Scope, pattern: str, listed: api.LinkList, why: str, by: str) -> None:
        """Next time a pattern says it."""
        try:
            draft = api.LinkPatternDraft(scope=owner, pattern=pattern, list=listed, reason=why[:1000], by=by)
            await self._patterns.put(draft)
        except (pydantic.ValidationError, errors.TooLarge) as error:
            # It is asked again then.
            log.warning("pattern not stored", reason=str(error).splitlines()[0])

    async def _fetched(
        self,
        request: api.IngestRequest,
        about: api.LinkSource,
        url: str,
        held: Sequence[api.LinkPattern],
        urgency: priority.Priority,
    ) -> api.IngestReply:
        urn = f"{api.LINK_URN}{url}"
        said = functools.partial(_said, urn, url)

        async def permit(asked: str) -> None:
            """Of redirects, too: a link may lead to one that must not be opened."""
            normal = links_in_text.normalise(asked)
            found = safety.qualify(normal, held) if normal else None
            if found is None or found.verdict in (safety.Verdict.BLOCKED, safety.Verdict.UNSAFE):
                raise fetch.Refused(f"it leads to {asked[:200]}: {found.reason if found else 'no plain web address'}")
            ruled = linking.decide(rules, request.scope, about, asked)
            if ruled is not None and ruled.effect is links.Effect.LEAVE:
                raise fetch.Refused(f"it leads to {asked[:200]}: {ruled.rules} leaves it")

        rules = await self._rules.in_force(request.scope)
        fetcher = await fetching.obeying(self._rules, request.scope, self._fetcher)
        since, away = self._monotonic(), True
        run = frontier.Crawl(fetcher, frontier.Limits(depth=0, pages=1), permit, _FILES if self._files else ())
        try:
            [seen] = [one async for one in run.pages(url)]
            away = seen.status >= 500
        except errors.Invalid as error:
            return said(api.LinkOutcome.UNSAFE, error.message)
        except errors.Away as error:
            return said(api.LinkOutcome.UNREACHABLE, error.message)
        finally:
            netloc = urllib.parse.urlsplit(url).netloc
            self._hosts.answered(netloc, away=away, seconds=self._monotonic() - since)
        if seen.gone:
            return said(api.LinkOutcome.GONE, f"the site has no such page ({seen.reason})")
        if seen.status >= 500 or seen.status in _LATER:
            return said(api.LinkOutcome.UNREACHABLE, f"the site answers {seen.reason}")
        starts: paging.Starts = ()
        if seen.file is not None:
            try:
                seen, starts = await self._file(seen.url, seen.file, request.scope, urgency)
            except root.Permanent as error:
                return said(api.LinkOutcome.REFUSED, error.message)
            except root.Operational as error:
                return said(api.LinkOutcome.UNREACHABLE, error.message)
        if seen.reason or seen.page is None:
            return said(api.LinkOutcome.REFUSED, seen.reason)
        mentioned, room = [], _MENTIONED_CHARS
        for link in seen.page.links:
            normal = links_in_text.normalise(link)
            if normal and (room := room - len(normal)) > 0:
                mentioned.append(normal)
        own = document_node.derive(urn, KIND, request.scope).key
        origin = _origin(about, request.scope)
        title = seen.page.title or about.subject or url
        document = request.model_copy(
            update={
                "source_urn": urn,
                "kind": KIND,
                "title": title[:1000],
                "content": seen.page.text,
                "content_ref": None,
                "attachments": None,
                "metadata": {
                    **request.metadata,
                    "url": url,
                    "foundIn": about.source_urn,
                    # Pages that are only mentioned; none of them is opened for this one's sake.
                    "links": list(mentioned),
                },
                "nodes": [_node(own, url, seen.page.title)],
                "relationships": [
                    api.GivenRelationship(
                        source=f"{caller_facts.DOCUMENT}{own}",
                        type="found_in",
                        target=f"{caller_facts.DOCUMENT}{origin}",
                    )
                ]
                if origin and origin != own
                else [],
            }
        ).as_marked(starts)
        try:
            made = await self._intake.take(document, urgency)
        except root.Permanent as error:
            return said(api.LinkOutcome.REFUSED, error.message)
        if not made.indexed:
            forbidden = said(api.LinkOutcome.REFUSED, "a hard rule forbids to store its page")
            return forbidden.model_copy(update={"indexed": False, "rules": made.rules, "replaced": made.replaced})
        reply = said(api.LinkOutcome.INDEXED, "its page is a document now")
        keys = [own, *([origin] if origin and origin != own else [])]
        return reply.model_copy(
            update={
                "replaced": made.replaced,
                "chunk_ids": made.chunk_ids,
                "node_keys": keys,
                "edge_count": len(keys) - 1,
            }
        )

    async def _file(
        self, url: str, raw: bytes, owner: scope.Scope, urgency: priority.Priority
    ) -> tuple[frontier.Seen, paging.Starts]:
        """A file as a page without links, and where its own pages begin.

        Raises what `kb.files.reader.Reader.file` raises.
        """
        assert self._files is not None
        # Its text alone: what others sent links to is not worth a vision model's time.
        read = await self._files.file(raw, owner, named=url, urgency=urgency, sight=reader.never)
        self._files.taken(read)
        return frontier.Seen(url, page.Page(read.title, read.text, (), follow=False, index=True)), read.starts


def _node(key: str, url: str, title: str) -> api.GivenNode:
    properties = {"url": url, "host": urllib.parse.urlsplit(url).hostname or "", "title": title[:1000]}
    return api.GivenNode(key=f"{caller_facts.DOCUMENT}{key}", type=KIND, properties=properties)


def _origin(about: api.LinkSource, where: scope.Scope) -> str:
    return document_node.derive(about.source_urn, about.source_kind or KIND, where).key if about.source_urn else ""


def _said(urn: str, url: str, outcome: api.LinkOutcome, reason: str) -> api.IngestReply:
    return _reply(
        urn, api.LinkReport(url=url, outcome=outcome, reason=reason[:1].upper() + reason[1:].rstrip(".") + ".")
    )


def _reply(urn: str, report: api.LinkReport) -> api.IngestReply:
    hints = _NOTHING.model_copy(update={"reason": report.reason})
    if report.outcome is api.LinkOutcome.UNCLEAR:
        host = urllib.parse.urlsplit(report.url).netloc
        question = (
            f"May {report.url} be opened and read? {report.reason} Answer with yes or no for this page, with always or "
            f"never for each page of {host} from now on."
        )
        hints = hints.model_copy(update={"has_actionable_content": True, "questions": [question]})
    return api.IngestReply(
        source_urn=urn,
        replaced=False,
        chunk_ids=[],
        node_keys=[],
        edge_count=0,
        summary=f"{report.outcome.value}: {report.url}. {report.reason}",
        hints=hints,
        link=report,
    )
