# The names of `import circuitax as cx`, each once: what they are is read from here, lazily.
from . import (
    circuits as circuits,
)
from . import (
    data as data,
)
from . import (
    figures as figures,
)
from . import (
    kernel as kernel,
)
from . import (
    models as models,
)
from . import (
    projection as projection,
)
from . import (
    records as records,
)
from . import (
    superposition as superposition,
)
from . import (
    training as training,
)
from .circuits.contrast import contrast as contrast
from .circuits.detectors import induction_scores as induction_scores
from .circuits.explain.explanation import explain as explain
from .circuits.ledger.ledger import ledger as ledger
from .circuits.losses import term_losses as term_losses
from .circuits.patching import ablation_effects as ablation_effects
from .circuits.patching import patch_effects as patch_effects
from .circuits.path_patching import patch_path as patch_path
from .circuits.path_patching import path_effects as path_effects
from .circuits.paths.components import component_logits as component_logits
from .circuits.paths.expansion import expand as expand
from .circuits.weights.composition import composition as composition
from .circuits.weights.composition import composition_scores as composition_scores
from .circuits.weights.folding import fold_norms as fold_norms
from .circuits.weights.heads import token_ov as token_ov
from .circuits.weights.heads import token_qk as token_qk
from .data.synthetic import repeated_tokens as repeated_tokens
from .display.explanation_page import explanation_page as explanation_page
from .kernel.chain import Chain as Chain
from .kernel.edits import ablate_head as ablate_head
from .kernel.edits import patch_activation as patch_activation
from .kernel.edits import patch_head as patch_head
from .kernel.edits import patch_pattern as patch_pattern
from .kernel.edits import patch_stream as patch_stream
from .kernel.forward import forward as forward
from .kernel.generate import generate as generate
from .kernel.interventions import Interventions as Interventions
from .kernel.interventions import freeze as freeze
from .kernel.kron import Kron as Kron
from .kernel.model import Model as Model
from .kernel.model import stack as stack
from .kernel.run import Run as Run
from .kernel.run import run as run
from .kernel.run import token_losses as token_losses
from .kernel.spec import TransformerSpec as TransformerSpec
from .kernel.weights import TiedWeights as TiedWeights
from .kit.train import train as train
from .models.pretrained import load_pretrained as load_pretrained
from .models.pretrained import load_tokenizer as load_tokenizer
from .models.pretrained import save_pretrained as save_pretrained
from .models.transformer import init as init
from .projection.distortion import distortion as distortion
from .projection.laws import jl_dimension as jl_dimension
from .projection.maps import MapSpec as MapSpec
from .projection.maps import project as project
from .records.estimate import Estimate as Estimate
from .records.record import Record as Record
from .superposition.expected_loss import expected_loss as expected_loss
from .superposition.features import dimensionality as dimensionality
from .superposition.optimum import find_optimum as find_optimum
