"""Two layers on real text: what paths of each order are worth, what heads look at, who composes."""

CHAPTER = "two layers"
PLACE = 40
