"""What was put at the sources arrives by itself, and so does each change: waited for, asked about, and shown."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from rich.console import Console

from crds import pendingtask, phases
from hack.demo import (
    agents,
    connected,
    errors,
    expectation,
    forward,
    inputs,
    planted,
    plugin,
    report,
    servers,
    settings,
    stream,
    submit,
    watch,
)
from hack.demo.kubectl import Kubectl


@dataclass(frozen=True)
class Showing:
    """Of one run, for `client`, on `console`."""

    console: Console
    cluster: Kubectl
    wanted: settings.Settings
    run: str
    client: str = settings.CLIENT

    def show(self, there: servers.Servers) -> dict[str, list[str]]:
        """Put, connect, ask; change at the sources, ask again. Returns {sourceUrn: names of its tasks}.

        Raises errors.Failure.
        """
        hashes = connected.plant(there)
        stories = planted.stories()
        self.console.print(f"\n[bold]what a mailbox and a Gitea bring by themselves[/] ({len(stories)} tasks)")
        selector = connected.connect(self.cluster, there, self.client)
        began = time.monotonic()
        first = self._arrived(selector, stories)
        self._until(f"git::{planted.REPOSITORY}@", lambda found: all(any(h in one for one in found) for h in hashes))
        self._say(began, "repository", "", f"{len(hashes)} commits are known")
        self._callers()
        self._ask("on-call", planted.FIRST)
        order = agents.Order(self.console, self.cluster, self.wanted, self.run, self.client)
        if self.wanted.simulated:
            # It is worked on while the sources are waited for.
            order.place()

        self.console.print("\n[bold]at their sources the mail is deleted and an issue is edited[/]")
        connected.change(there)
        began = time.monotonic()
        second = self._arrived(selector, {planted.urn(1): "the edited issue"}, first.values())
        self._until(planted.MAILS[0].urn, lambda found: not found)
        self._say(began, "mailbox", "", "the deleted mail is forgotten")
        self._ask("on-call-again", planted.THEN)
        if self.wanted.simulated:
            order.show(there)
        else:
            self.console.print("agents are shown with the simulators alone: what a real model proposes is not known")
        return {urn: [name, *([second[urn]] if urn in second else [])] for urn, name in first.items()}

    def _arrived(self, selector: str, stories: Mapping[str, str], known: Collection[str] = ()) -> dict[str, str]:
        """Show the tasks of the sourceUrns of `stories` until each has ended; their names. `known` are none of them."""
        began, seen = time.monotonic(), dict[str, pendingtask.PendingTask]()
        for task in stream.tasks(self.cluster, selector, began + self.wanted.timeout):
            if task is None or task.metadata.name in known:
                continue
            urn, phase = task.spec.source_urn or "", expectation.phase(task)
            if urn not in stories:
                continue
            if urn not in seen or expectation.phase(seen[urn]) != phase:
                self._say(began, task.metadata.name, phase, stories[urn])
            seen[urn] = task
            if len(seen) == len(stories) and all(one.status.phase in expectation.ENDS for one in seen.values()):
                break
        late = [
            f"{story} ({expectation.phase(seen.get(urn))}: {expectation.reason(seen.get(urn))})"
            for urn, story in stories.items()
            if urn not in seen or not self._ended(seen[urn])
        ]
        if late:
            raise errors.Failure(f"did not arrive: {'; '.join(late)}; kubectl jervis connections says more")
        return {urn: one.metadata.name for urn, one in seen.items()}

    def _ended(self, task: pendingtask.PendingTask) -> bool:
        """Whether it has ended well: in no error, and with a real model in no failure either."""
        well = task.status.phase in expectation.ENDS - {phases.Phase.ERROR}
        return well and (self.wanted.simulated or not expectation.failed(task))

    def _until(self, source: str, right: Callable[[list[str]], bool]) -> None:
        """Until the sourceUrns in the knowledge base that begin with `source` are right."""
        deadline = time.monotonic() + self.wanted.timeout
        owner = {"clientId": self.client, "projectId": settings.PROJECT, "source": source}
        with forward.opened(self.cluster, submit.KB_READ, submit.KB_PORT) as url:
            asked = f"{url}/api/v1/documents?{urlencode(owner)}"
            direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            while True:
                with direct.open(asked, timeout=30) as answer:
                    found = [one["sourceUrn"] for one in json.load(answer)["documents"]]
                if right(found):
                    return
                if time.monotonic() > deadline:
                    raise errors.Failure(f"of {source} the knowledge base has {found or 'nothing'}")
                time.sleep(0.5)

    def _callers(self) -> None:
        """Ask who calls a function of the repository, once its code is known: no model answers that."""
        # The document of the branch is written last.
        self._until(f"git_branch::{planted.REPOSITORY}@", bool)
        asked = ("code", "callers", planted.SYMBOL, "--client", self.client, "--project", settings.PROJECT)
        with forward.opened(self.cluster, submit.KB_READ, submit.KB_PORT) as url:
            answer = plugin.known(self.cluster, *asked, "--url", url)
        self.console.print(f"[bold]$ jervis-kb {' '.join(asked)}[/]")
        self.console.print(answer.rstrip(), markup=False, highlight=False, soft_wrap=True)
        if planted.CALLER not in answer:
            raise errors.Failure(f"the callers of {planted.SYMBOL} are without {planted.CALLER}")

    def _ask(self, name: str, person: str) -> None:
        """`person` is whom the answer has to name."""
        item = inputs.Item(
            name, planted.QUESTION, pendingtask.Type.USER_INPUT, planted.QUESTION,
            frozenset({phases.Phase.COMPLETED}), mode=pendingtask.Mode.FOREGROUND,
        )  # fmt: skip
        self.cluster.apply([submit.manifest(item, self.run, self.client)])
        wanted = expectation.Expectation(submit.name(item, self.run), item.story, item.expected)
        if not self.wanted.simulated:
            [wanted] = expectation.relaxed([wanted])
        seen = watch.shown(self.console, self.cluster, submit.selector(self.run), [wanted], self.wanted.timeout)
        task = seen.get(wanted.task)
        if task is None or not wanted.met(task):
            raise errors.Failure(f"{wanted.task}: {expectation.reason(task) or 'not answered'}")
        answer = report.answer(self.console, self.cluster, task)
        if self.wanted.simulated and person not in answer:
            raise errors.Failure(f"the answer to {planted.QUESTION!r} does not name {person}")

    def _say(self, began: float, what: str, phase: str, text: str) -> None:
        at = f"  [{time.monotonic() - began:5.1f}s] {what:<28} {phase:<22} {text}"
        self.console.print(at, markup=False, highlight=False, soft_wrap=True)
