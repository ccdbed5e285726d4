"""Who does what: heads told apart by what they look at, what they write, and by patching."""

CHAPTER = "two layers"
PLACE = 30
