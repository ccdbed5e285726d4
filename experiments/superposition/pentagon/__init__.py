"""The pentagon network of Example 26: five features in two neurons, and what they cannot carry."""

CHAPTER = "superposition"
PLACE = 40
