"""The facts of many files: which are read, within which budget, in which process, and as what bytes they are kept."""
