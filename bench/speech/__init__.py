"""What the transcription of recordings costs, and how many of the words are right."""
