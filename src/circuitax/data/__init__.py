"""Floor 1: data as a pure function of a key and a step."""
