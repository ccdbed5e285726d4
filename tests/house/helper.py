"""Not an experiment: it defines neither Spec nor run."""
