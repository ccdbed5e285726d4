"""What more English prose would give to models without layers, with one and with two."""

CHAPTER = "one layer"
PLACE = 22
