"""Who does what: heads told apart by what they look at, what they write, and by patching."""

PLACE = 60
