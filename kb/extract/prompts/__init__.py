"""The prompts of the qualifier: `NAME.vN.txt` is the prompt `kb.qualify.NAME/vN`. A change of wording is a new file."""
