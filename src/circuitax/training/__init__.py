"""Floor 3: one pure training step, scanned, vmapped over ensembles, checkpointed."""
