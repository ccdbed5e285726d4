"""Every numbered item, table, figure, algorithm and stated fact of the five sources, by name.

S0 Some Structures in Transformer Architectures · S1 the linear algebra post · S2 the attention
mechanism chapter · S3 the Kronecker note · S4 notes on the framework paper.
"""

ITEMS = """
S0 Def. 1 softmax
S0 Def. 2 embeddings
S0 Def. 3 layer normalization
S0 Def. 4 ReLU
S0 Def. 5 MLP
S0 footnote 1 GELU
S0 Def. 6 residual connections, pre-LN
S0 Def. 7 self-attention head
S0 Def. 8 multi-head attention
S0 Rmk. 9 terminology and dimensions
S0 §2.2 full transformer
S0 Alg. 10 text generation
S0 Rmk. 11 causal masking
S0 §2.3 assumption 1 no MLPs
S0 §2.3 assumption 2 linear maps only
S0 footnote 2 bias folding
S0 §2.3 assumption 3 no layer normalization
S0 §2.3 assumption 4 no scaling
S0 Def. 12 simplified transformer
S0 Def. 13 Kronecker product
S0 Rmk. 14 Kronecker products as operators on matrices
S0 Ex. 15 a Kronecker product
S0 Lemma 16 mixed-product property
S0 Lemma 17 standard matrix identity
S0 Claim 18 head output as one Kronecker action
S0 §3 attention as X plus one Kronecker action
S0 Def. 19 virtual weight I ⊗ W
S0 Rmk. 20 move and process
S0 §4 zero-layer transformer
S0 Rmk. 21 the bigram model
S0 §5 one-layer operator form
S0 Prop. 22 path expansion
S0 Def. 23 QK and OV circuits
S0 Rmk. 24 interpretation of circuits
S0 Thm. 25 transformer as an ensemble
S0 Table 1 skip-trigrams
S0 §6 head-to-head circuits
S0 §6 explosion of paths
S0 footnote 3 depth of real models
S0 §7 neuron and neural layer
S0 §7 superposition hypothesis
S0 Ex. 26 pentagon superposition network
S0 Fig. 1 geometric superposition pipeline
S0 Thm. 27 Johnson–Lindenstrauss
S0 Thm. 27 proof: random sign map
S0 Cor. 28 angles
S0 §7 random weights suffice
S1 §1 update and add back
S1 §2 text as a matrix
S1 §3 per-token layers cannot do context
S1 §4 query, key, value projections
S1 §4 collapsed W_V
S1 §4 attention scores and weights
S1 §4 weighted sum of values
S1 §4 "a cat sat" triangle
S1 §4 matrix form in three lines
S1 §4 why the scale 1/√d_k
S1 §4 fact 1 updates lie in the span of the values
S1 §4 fact 2 the mixing matrix depends on the input
S1 §4 multi-head note
S1 §5 MLP expand, activate, compress
S1 §5 what the up-projection computes
S1 §5 a linear MLP collapses
S1 §6 one full layer
S1 §7 logits and the predicted token
S1 §8 pseudocode
S1 summary table
S2 queries, keys and values
S2 three steps of attention
S2 worked example
S2 exercise for token B
S2 self-attention and causal masking
S2 multi-head attention
S2 parameter count of heads
S2 head types: previous-token, induction, name mover
S2 residual stream is additive
S2 layer normalization couples dimensions
S2 MLP as key–value memory
S2 positional encodings
S2 permutation equivariance
S2 pipeline embed, layers, unembed
S2 decomposition of the output
S2 notation table
S3 Objective 1
S3 §2 standard layer
S3 §2 assumptions
S3 Def. 1 simplified transformer
S3 Def. 2 Kronecker product
S3 Rmk. 3 column-wise operators
S3 Ex. 4 a Kronecker product
S3 Prop. 5 mixed product
S3 Prop. 6 standard matrix identity
S3 Claim 7 head output
S4 read and write subspaces
S4 bandwidth of the residual stream
S4 memory management
S4 heads add independently
S4 tensor product notation
S4 attention head as a tensor product
S4 frozen pattern makes the model linear
S4 zero-layer transformer
S4 one-layer transformer
S4 QK and OV circuits on tokens
S4 skip-trigram interpretation
S4 copying heads
S4 positional heads
S4 skip-trigram bugs
S4 softmax couples sources
S4 two-layer transformer
S4 Q-, K- and V-composition
S4 without composition two layers are one
S4 composition by Frobenius norms
S4 induction heads
S4 eigenvalues of QK and OV
S4 virtual attention heads
S4 number of virtual heads
S4 ablation algorithm
""".strip().splitlines()
