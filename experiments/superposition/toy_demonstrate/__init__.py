"""Linear models keep the most important features; ReLU models store more, the sparser they are."""

CHAPTER = "superposition"
PLACE = 15
