"""Linear models keep the most important features; ReLU models store more, the sparser they are."""

PLACE = 20
