"""Johnson-Lindenstrauss: Theorem 27 and Corollary 28 as printed, as proved and as corrected."""

CHAPTER = "projection"
PLACE = 10
