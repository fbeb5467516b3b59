"""Which hosts the knowledge base may ask for pages, for a scope: each of its rules is obeyed, the wider ones too."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from contracts.rules import enforce_lines
from crds import scope
from kb import api, visibility
from kb.crawl import fetch
from kb.rules import enforce


async def obeying(kept: enforce.Port, where: scope.Scope, fetcher: fetch.Fetcher) -> fetch.Fetcher:
    """The fetcher with the rules of a scope as they are now. Raises `kb.errors.Away`."""
    rules = [one for one in await kept.in_force(where) if visibility.governs(one.scope, where)]

    async def permit(url: str) -> None:
        why = refusal(rules, url)
        if why:
            raise fetch.Refused(why)

    return fetcher.under(permit) if rules else fetcher


def refusal(rules: Iterable[api.Rule], url: str) -> str:
    """Why one of the rules forbids the URL, "" when none does. A rule that cannot be enforced forbids all."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""  # the fetcher says what is wrong with it
    for one in rules:
        try:
            forbidden = enforce_lines.unfetched(one.rule_content, host)
        except ValueError as error:
            return f"the hard rule {one.rule_key!r} (version {one.version}) cannot be enforced: {error}"
        if forbidden:
            return f"the hard rule {one.rule_key!r} (version {one.version}) forbids {host[:253]}"
    return ""
