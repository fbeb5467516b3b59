"""Hard rules: what an agent must obey for a client or a project, with every version that ever held.

I own: the collection `clientProjectRules` (seed 002 "Hard Rules Storage"), and what rules decide about a document
(`kb.rules.enforce`). Who may call me: `kb.service.http`, `kb.ingest`. There is no unscoped call: a rule is found
through the scope of who asks.
"""
