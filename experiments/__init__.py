"""One folder for each experiment; beside them the commands, as entries of a few lines."""
