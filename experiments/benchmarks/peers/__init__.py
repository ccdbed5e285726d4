"""Scripts that run in the environment of a peer and answer requests; never imported."""
