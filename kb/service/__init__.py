"""The process of the knowledge base: its parts put together (`serving`, `assembly`, `workers`), and its HTTP (`http`).

Who may call me: `kb.__main__`. I am the only part of the knowledge base that serves: no other imports aiohttp or me.
"""
