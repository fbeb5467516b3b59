"""Reports to webhooks and by mail what becomes of tasks, as the hard rules of their scopes say (`enforce: notify`).

I own the collection `task_notices`: one document per task, event and address. `notice` is pure, `mongo` keeps them,
`sender` calls the webhooks, `mailer` the mail server, `reconcile` is the loop. No task waits for me. My root is
operator/main.py.
"""
