"""Johnson–Lindenstrauss distortion against m: map families, point clouds, numbers of points."""

PLACE = 20
