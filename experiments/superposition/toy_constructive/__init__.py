"""Features that occur together lie side by side, where what one adds to the other is right."""

PLACE = 100
