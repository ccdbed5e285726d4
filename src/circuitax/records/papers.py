"""Papers that claims cite, and addresses; docs/bibliography.md has their authors."""

from enum import StrEnum


class Paper(StrEnum):
    """A cited paper or text, as the report names it, in the order of its list."""

    FRAMEWORK = "Framework paper"
    INDUCTION = "Induction-heads paper"
    TOY_MODELS = "Toy-models paper"
    S0 = "S0, Some Structures in Transformer Architectures"
    S1 = "S1, the linear-algebra post"
    S2 = "S2, the attention chapter"
    S4 = "S4, the notes on the framework paper"
    ARENA = "ARENA"
    ARORA_2026 = "Arora et al. 2026"
    BRAUN_2025 = "Braun et al. 2025"
    BUSHNAQ_2025 = "Bushnaq, Braun and Sharkey 2025"
    CHANIN_2025 = "Chanin et al. 2025"
    CHEN_2023 = "Chen et al. 2023"
    DASGUPTA_2003 = "Dasgupta and Gupta 2003"
    GEVA_2021 = "Geva et al. 2021"
    GILBERT_1952 = "Gilbert 1952, Varshamov 1957"
    GOLDEN_2025 = "Golden 2025"
    GOLDOWSKY_DILL_2023 = "Goldowsky-Dill et al. 2023"
    HENIGHAN_2023 = "Henighan et al. 2023"
    LEVENSHTEIN_1982 = "Levenshtein 1982"
    LI_2006 = "Li, Hastie and Church 2006"
    LIU_2025 = "Liu, Liu and Gore 2025"
    MENG_2022 = "Meng et al. 2022"
    MU_2018 = "Mu and Viswanath 2018"
    NANDA_2023 = "Nanda et al. 2023 (progress measures)"
    PEARCE_2024 = "Pearce et al. 2024"
    PRIETO_2026 = "Prieto and others 2026"
    RAJAMANOHARAN_2024 = "Rajamanoharan et al. 2024"
    SHARKEY_2022 = "Sharkey, Braun and Millidge 2022"
    SHLEGERIS_2023 = "Shlegeris 2023"
    WANG_2022 = "Wang et al. 2022"
    WELCH_1974 = "Welch 1974"


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
