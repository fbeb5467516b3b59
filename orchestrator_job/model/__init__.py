"""What is sent to models, and how they are asked.

I own: the prompts as files, the room that a prompt has (`prompt_budget`, `excerpt`), the escape of what others wrote
(`prompt_escape`), the rules and the context that each prompt has (`rules_context`), and calls on the budget of a round
(`model_calls`, `budget`). I import `store` alone.
"""
