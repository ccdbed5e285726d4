"""Floor 1: synthetic tasks and text; a batch is a pure function of a key and a step."""
