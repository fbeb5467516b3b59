"""A branch as a whole, made in a worker process: what Joern adds to what is resolved, and the documents that say it.

analyst      the worker process, and what is made in it of the facts of a branch
cpg          Joern's export, merged into the project
documents    a source file, and a branch, as the documents that the knowledge base takes
"""
