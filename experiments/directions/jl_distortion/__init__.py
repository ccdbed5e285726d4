"""Johnson–Lindenstrauss distortion against m: map families, point clouds, numbers of points."""

CHAPTER = "projection"
PLACE = 20
