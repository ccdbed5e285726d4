"""Dictionary learning without noise: four autoencoders on targets whose true features are known."""

CHAPTER = "superposition"
PLACE = 80
