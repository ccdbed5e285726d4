"""S0 Theorem 27 and Corollary 28, as printed, as proved and as corrected (E8, E9, E10)."""
