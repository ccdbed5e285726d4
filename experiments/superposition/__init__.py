"""Toy models of superposition: phases, geometry, proofs, and what follows from them."""
