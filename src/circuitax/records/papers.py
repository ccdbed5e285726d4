"""Addresses of the sources that claims cite; docs/bibliography.md has their authors."""

FRAMEWORK = "https://transformer-circuits.pub/2021/framework/index.html"
INDUCTION = (
    "https://transformer-circuits.pub/2022/in-context-learning-and-induction-heads/index.html"
)
TOY_MODELS = "https://transformer-circuits.pub/2022/toy_model/index.html"
TOY_MODELS_CODE = "https://github.com/anthropics/toy-models-of-superposition"
TOY_MODELS_JAX = "https://github.com/adonath/toy-models-of-superposition-jax"
# S0; the page of the programme it was written in is https://drp.elte.hu/.
STRUCTURES = "https://vmenon04.github.io/projects/some-structures-in-transformer-architectures"
ATTENTION = "https://arxiv.org/abs/1706.03762"
KEY_VALUES = "https://arxiv.org/abs/2012.14913"
PHASES = "https://arxiv.org/abs/2310.06301"
SCALING = "https://arxiv.org/abs/2505.10465"
MEMORIZATION = "https://transformer-circuits.pub/2023/toy-double-descent/index.html"
CONSTRUCTIVE = "https://arxiv.org/abs/2603.09972"
SKIP_TRIGRAMS = "https://www.lesswrong.com/posts/b5HNYh9ne5vEkX5ag"
ARENA = "https://github.com/callummcdougall/ARENA_3.0"
CODES = "https://doi.org/10.1002/j.1538-7305.1952.tb01393.x"

# In the order of the claims page; a claim belongs to the paper that its link leads to.
TITLES = {
    FRAMEWORK: "A Mathematical Framework for Transformer Circuits (framework paper)",
    INDUCTION: "In-context Learning and Induction Heads (induction-heads paper)",
    TOY_MODELS: "Toy Models of Superposition (toy-models paper)",
    STRUCTURES: "Some Structures in Transformer Architectures (S0)",
}
