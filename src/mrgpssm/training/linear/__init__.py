"""Linear state-space models identified from recordings: what a model starts from, and what it has to beat."""
