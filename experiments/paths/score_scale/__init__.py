"""What 1/sqrt(d_k) is for: unscaled scores grow with a head's width and saturate the softmax."""

CHAPTER = "algebra"
PLACE = 30
