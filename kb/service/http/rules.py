"""Hard rules over HTTP."""

from __future__ import annotations

from aiohttp import web

from contracts.rules import enforce_lines
from kb import api, errors, routes
from kb.rules import mongo
from kb.service.http import access, answering, body, openapi


class Rules:
    """The routes of every process."""

    def __init__(self, kept: mongo.Rules) -> None:
        self._rules = kept

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [
            (routes.RULES_LIST, self.list),
            (routes.RULES_PUT, self.put),
            (routes.RULES_DELETE, self.delete),
            (routes.RULES_HISTORY, self.history),
        ]

    async def list(self, request: web.Request) -> web.Response:
        """GET /api/v1/rules"""
        viewer = body.owner(request)
        named = request.query.get("ruleType")
        kinds = {kind.value: kind for kind in api.RuleType}
        if named is not None and named not in kinds:
            raise errors.Invalid(
                f"there is no rule type {named!r}", field="ruleType", remedy=f"Give one of {', '.join(kinds)}."
            )
        return answering.json(api.Rules(rules=await self._rules.in_force(viewer, kinds[named] if named else None)))

    async def put(self, request: web.Request) -> web.Response:
        """PUT /api/v1/rules"""
        draft = await body.read(request, api.RuleDraft)
        run = access.run(request)
        if run is not None:
            if draft.rule_key not in [f"{api.LEARNED}{key}" for key in run.rules]:
                raise errors.Forbidden(
                    f"{access.who(request)} may not write the rule {draft.rule_key!r}",
                    field="ruleKey",
                    remedy=f"A run writes {api.LEARNED}KEY for the KEY of a rule that a person approved in its task.",
                )
            if enforce_lines.permitted(draft.rule_content):
                raise errors.Forbidden(
                    f"{access.who(request)} may not write a permit",
                    field="ruleContent",
                    remedy="A person writes standing permits: jervis-kb rules set KEY TEXT --type SECURITY.",
                )
            # A caller with the token of a run is that run, whatever it says.
            draft = draft.model_copy(update={"created_by": f"{access.who(request)}, approved by a person"})
        return answering.json(await self._rules.put(draft))

    async def delete(self, request: web.Request) -> web.Response:
        """DELETE /api/v1/rules?ruleKey=...&deletedBy=...&clientId=..."""
        owner = body.owner(request)
        rule_key, by = answering.text(request, "ruleKey"), answering.text(request, "deletedBy", most=200)
        if not await self._rules.delete(owner, rule_key, by):
            raise errors.NotFound(
                f"no rule {rule_key!r} is in force in exactly this scope",
                field="ruleKey",
                remedy="See GET /api/v1/rules for the rules and their scopes.",
            )
        return web.Response(status=204)

    async def history(self, request: web.Request) -> web.Response:
        """GET /api/v1/rules/history?ruleKey=...&clientId=..."""
        viewer = body.owner(request)
        return answering.json(api.Rules(rules=await self._rules.history(viewer, answering.text(request, "ruleKey"))))
