"""Johnson-Lindenstrauss: Theorem 27 and Corollary 28 as printed, as proved and as corrected."""

PLACE = 10
