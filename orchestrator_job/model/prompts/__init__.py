"""Prompts as files: `NAME.vN.txt` is the prompt `job.NAME/vN`. A change of wording is a new file."""
