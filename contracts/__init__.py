"""What the processes of Jervis say to each other: tokens, hard rules, answers of their APIs, names of stores and spans.

I own: run tokens and files of tokens (`tokens`), the lines of a hard rule that programs enforce (`rules`), the shapes
of what one process answers to another (`api`), the one shape of a refusal (`problems`), what a route of a service is
(`http_routes`), the form of the services' OpenAPI documents (`openapi`), names that are imported when they are used
(`lazy_names`), which web pages may call a service (`browsers`), the collections that hold data of tasks
(`mongo_collections`), the keys of what a repository consists of (`repository_keys`), and the names of spans (`trace`,
`otel_spans`).

Who may call me: every package but `crds` and `text`. I import these two alone and do no I/O, except in
`tokens.keyring` and `tokens.token_file`, which read files, and `lazy_names`, which reads a module's source.
"""
