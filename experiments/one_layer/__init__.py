"""Language models of one layer: bigrams, skip-trigrams, and the text models others read."""
