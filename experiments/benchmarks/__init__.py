"""Benchmarks: each module here yields cases, measured in turns with a peer."""
