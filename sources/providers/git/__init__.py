"""Git for the sources process: hardened commands, bare clones, and what is read from them.

Owned: the directories below `sources.settings.workspace`. `sources.providers.git.polling` and
`sources.providers.git.reading` call this. Nothing is ever checked out, no hook and no helper of a repository runs.
"""
