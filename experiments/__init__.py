"""One file an experiment; the entries are run, reproduce, collect, render and benchmark."""
