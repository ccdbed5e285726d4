"""Common levels of records: quantiles and thresholds of direction sets, names of features."""

import numpy as np

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
# Thresholds of |cos| as multiples of 1/√d, the root mean square of random overlaps; TAIL is the one
# that claims are about, kept for each draw.
MULTIPLES = np.linspace(0, 8, 33)
TAIL = 3.0
# How arrays of each model's features begin; with an s, the key of their notes and random draws.
FEATURE = {"ours": "feature", "smollm2": "smollm2_feature"}
