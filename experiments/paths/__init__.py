"""Transformers as sums of paths: identities, how many paths matter, and what they cost."""
