"""What the sources process holds after long histories of a source, beside what three simpler algorithms hold."""
