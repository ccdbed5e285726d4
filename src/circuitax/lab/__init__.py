"""Floor 6: the lab in which an experiment runs: chunks, progress, resume, upstream results."""
