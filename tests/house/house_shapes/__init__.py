"""A record of one width, with code compiled for it alone: what a sweep over shapes is made of."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment()
