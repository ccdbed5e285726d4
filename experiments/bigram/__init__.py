"""S0 Remark 21: a zero-layer transformer is the bigram table; a one-layer direct path is not."""
