"""What all sources have in common: claims, polls, items, limits, tasks.

Providers are opened by `port`. Of Git I know more: `poller` polls its workspaces and `cleanup` empties them.
"""
