"""One folder per experiment; the entries are run, reproduce, collect, render and benchmark."""
