"""The models, and the numbers printed about them, table by table."""

ARENA = "https://github.com/callummcdougall/ARENA_2.0"
PROGRESS = "https://github.com/mechanistic-interpretability-grokking/progress-measures-paper"

# File names without ending, by task.
MODELS = {
    "palindrome": "arena_july_palindrome",
    "unique": "arena_august_first_unique",
    "sign": "arena_november_cumsum",
    "bracket": "arena_brackets",
    "copies": "nanda_induction_infinite",
}
# What tells the published model from another of its kind.
SIZES = {
    "palindrome": {"n_layers": 2, "n_heads": 2, "d_model": 28, "d_head": 14, "d_vocab": 33},
    "unique": {"n_layers": 2, "n_heads": 3, "d_model": 42, "d_head": 14, "d_vocab": 11},
    "sign": {"n_layers": 1, "n_heads": 1, "d_model": 24, "d_head": 12, "d_vocab": 11},
    "bracket": {"n_layers": 3, "n_heads": 2, "d_model": 56, "d_head": 28, "d_vocab": 5},
    "copies": {"n_layers": 2, "n_heads": 4, "d_model": 48, "d_head": 12, "d_vocab": 128},
}
# What the readings index: these sizes must be right in any model of the kind.
NEEDED = ("n_layers", "n_heads", "d_vocab")

# Shares of texts drawn afresh: samples. All other readings are of the publishers' own examples, as
# accuracies are of the validation sets that their training prints, or of those of the reference.
FRESH = {
    "palindrome-blind",
    "palindrome-sighted",
    "copies-top-path",
}

# Printed by the authors of the models.
PRINTED: dict[str, list] = {
    "palindrome-mean-ablation": [0.614, 6.642, 0.299, 6.815],
    "palindrome-zero-ablation": [1.672, 3.477, 2.847, 7.274],
    "palindrome-loss-without": [0.118, 0.010, 0.014, 0.008],
    "palindrome-wrong": [2, 1, 0],
    "palindrome-turns": [0.373, 0.544],
    "sign-fit": [0.073, 0.938, 0.999, 0.579],
    "sign-silenced-centred": [0.536, 0.637, 0.614, 0.159],
    "sign-neurons-centred": [0.0185, 0.0163, 0.0951, 0.0200, 0.0311, 0.0002, 0.0, 0.0465],
    "sign-cosines": [0.970, -0.958, -0.949, -0.190, -0.128],
}
# From an independent NumPy forward pass on the same weights; the authors show them in figures, or
# have code that would print them.
REFERENCE: dict[str, list] = {
    "bracket-strings": [0.999986, 0.999989, 0.000005, 0.999987],
    "palindrome-zero-unfolded": [1.459, 2.762, 2.968, 7.066],
    "palindrome-cosines": [
        [0.95, 0.95, 0.95, 0.96, 0.96, 0.95, -0.94, 0.95, -0.94, -0.95],
        [-0.76, -0.76, -0.70, -0.76, -0.74, -0.71, 0.78, -0.75, 0.60, 0.82],
    ],
    "palindrome-direct": [
        [9.34, 8.80, 9.26, 10.29, 8.20, 8.74, -1.41, 6.07, -2.85, -6.80],
        [-1.61, -1.16, -1.16, -1.42, -1.35, -1.02, 0.51, -0.38, 0.74, 2.64],
    ],
    "unique-mean-ablation": [11.25, 20.30, 8.58, 3.46, 5.36, 5.41],
    "unique-zero-ablation": [12.09, 18.58, 7.98, 2.44, 5.17, 4.99],
    "unique-direct-into-1.0": [-51.2, 3.6, -50.6, 9.2, 12.4, 7.3, -18.7, 7.8, 8.5, 5.8],
    "unique-0.0-into-1.0": [244.6, 11.3, 76.0, 24.0, 13.0, 10.3, 45.7, 36.5, 31.1, 36.9],
    "unique-0.1-into-1.0": [34.0, 11.9, -111.8, 10.2, 12.3, 11.8, 3.8, 19.2, 18.0, 15.4],
    "unique-0.2-into-1.0": [-152.1, 12.8, 93.8, 14.4, 35.2, 23.9, -13.0, 22.9, 2.4, 19.8],
    "unique-0.1-into-1.1": [1.3, -4.7, -7.2, -183.4, -127.5, -143.1, -2.5, -1.0, -11.7, -87.7],
    "unique-0.2-into-1.1": [19.9, 31.6, 13.8, 17.8, 144.5, 150.8, 21.9, 35.5, 13.4, 185.0],
    "unique-0.1-into-1.2": [-1.8, -71.1, -9.5, 0.7, -1.3, -8.1, -31.7, -173.8, -337.4, 2.0],
    "unique-0.2-into-1.2": [32.9, -78.2, 12.9, 27.8, 34.9, 55.4, -124.7, 164.3, 21.6, 25.8],
    "unique-detail": [
        [-9.75, 43.04, -24.04, 45.18],
        [7.49, 22.09, -6.88, 28.19],
        [-5.43, 7.61, -11.40, 11.36],
    ],
    "sign-silenced": [0.5222, 0.6449, 0.6221, 0.1584],
    "sign-neurons": [0.0157, 0.0138, 0.0982, 0.0170, 0.0271, 0.0002, 0.0, 0.0491],
    "sign-singular": [[22.01, 0.0008], [21.20, 0.0008]],
    "bracket-contributions": [0, -2.78, 1.94, -2.15, -0.34, 0.07, 3.63, 8.47, 12.59, 0.54],
    "bracket-by-failure": [[10.8, 5.0], [4.9, 16.5], [7.6, 15.1]],
    "copies-by-place": [
        *(0.36, 0.28, 0.32, 0.28, 0.28, 0.22, 0.24, 0.22),
        *(0.24, 0.27, 0.22, 0.19, 0.27, 0.30, 0.73),
    ],
    "copies-mean-ablation": [0.296, 0.245, 4.306, 0.260, 0.000, 0.232, 0.490, 0.443],
    "copies-zero-ablation": [1.086, 1.139, 4.856, 1.445, 0.000, 0.246, 0.512, 0.475],
    "copies-composition": [0.321, 0.363, 0.359, 0.354],
    "copies-previous": [0.852, 0.021, 0.012],
    "copies-copying": [1.0, 1.0, 1.0, 1.0],
}
# What the page says of own logits: paths through one head of layer 1, directly and by each head of
# layer 0; the letters of each head of layer 1; and where a first step has another sign than else.
INTO = ("direct", "0.0", "0.1", "0.2")
LETTERS_OF = ("ac", "defj", "bghi")
EXCEPT = {("0.2", 0): "a", ("0.2", 2): "bg"}  # first step, head of layer 1
UNCLAIMED = ("0.1", 0, "a")  # head 0.1 serves all letters but a
# Neurons that fire, by the page's text, where the running mean is positive, and where negative.
ON_POSITIVE, ON_NEGATIVE = (0, 1, 3, 4), (2, 7)
# Where in a table of own logits a reference row stands: first step, head of layer 1.
OWN_ROWS = {
    "unique-direct-into-1.0": (0, 0),
    "unique-0.0-into-1.0": (1, 0),
    "unique-0.1-into-1.0": (2, 0),
    "unique-0.2-into-1.0": (3, 0),
    "unique-0.1-into-1.1": (2, 1),
    "unique-0.2-into-1.1": (3, 1),
    "unique-0.1-into-1.2": (2, 2),
    "unique-0.2-into-1.2": (3, 2),
}
