"""The decision agent: it chooses a tool, looks at what that gave, chooses again, and answers or says why it cannot.

I own: what is carried from tool to tool (`environment`, `tree`), the tools (`retrieving`, `graph_tool`, `answering`),
the choice (`decision`), the loop (`orchestrator`), and questions that run, their events and conversations (`running`,
`store`).
Who may call me: `kb.service.http.agentic`. Rights come from the request's scope and the hard rules alone: no text of a
document or of a model changes which tools there are.

Source: seed 004 (the whole).
"""
