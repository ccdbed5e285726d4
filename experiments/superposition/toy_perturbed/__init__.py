"""One feature's density is varied: the pentagon bends, then snaps into two digons."""

PLACE = 80
