"""One feature's density is varied: the pentagon bends, then snaps into two digons."""

CHAPTER = "superposition"
PLACE = 28
