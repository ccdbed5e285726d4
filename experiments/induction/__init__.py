"""Induction heads: two layers, the phase change, composition, and roles of heads."""
