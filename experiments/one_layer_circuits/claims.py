"""What one-layer circuits are held against, fixed before the run on their seed, and the estimates.

They were first judged on seed 0. Where a recipe or a threshold was changed after that, or set by a
pilot on other seeds, ``why`` says so; the configuration has a seed that nobody had looked at.
"""

import numpy as np
import xarray as xr

from circuitax.records.claims import Claim, at_least, between, near
from circuitax.records.estimate import Estimate, mean_estimate

WHERE = "framework paper, one-layer models"
ALL = "all seeds that stayed finite; every head counts, seeds are the replicates"
COPIES = 0.1  # a random circuit of this rank is within 0.1 of 0 (reference page, F9)
LEARNED = 0.75
TINY = 1e-12
CLAIMS = (
    Claim("ov-random", WHERE, "Before training the OV eigenvalue score is 0: mean over heads",
          "ov-random", between(-0.1, 0.1), "rank 16, mean of four heads", "number", ALL, 8),
    Claim("ov-copying-rise", WHERE, "Training makes heads copy: mean score after minus before (F8)",
          "ov-copying-rise", at_least(0), "a relation", "shape", ALL, 8),
    Claim("ov-most-copy", WHERE, "Most heads copy: share of heads with score over 0.1 (F9)",
          "ov-most-copy", at_least(0.5), "10 of 12 in the paper; more than half", "shape", ALL, 8),
    Claim("copying-top-5", WHERE, "In the best head, tokens are among the five they raise most "
          "more often than by chance: ratio", "copying-top-5", at_least(2), "chance is 1 for one "
          "head; the best of four untrained heads has about 1.4", "shape", ALL, 8),
    Claim("bugs-cost", "framework paper, skip-trigram bugs; S4", "Bilinearity costs: held-out nats "
          "an event that a free vector for each frequent pair saves", "bugs-cost", at_least(0),
          "a relation, and an upper bound: the vectors also make up for what bigrams or more "
          "training would bring; the paper leaves the price open. Their prior was set after a run "
          "on seed 0, without it they overfit", "shape", ALL, 8),
    Claim("bugs-said", "framework paper, skip-trigram bugs", "Forced corners that the text never "
          "has are said all the same: P(out) at their pairs, over that without the head (geometric "
          "mean of the strongest twelve)", "bugs-said", at_least(1), "a relation: 1 if the other "
          "heads took back what the head raises", "shape", ALL, 8),
    Claim("text-additivity-gap", "S4; Shlegeris 2023 (E11)", "On text, heads with a softmax beat "
          "the same heads as a sum over sources, trained on from the same weights with the same "
          "batches: held-out nats a token", "text-additivity-gap", at_least(0), "a relation, and "
          "an upper bound, since the sum is not at its optimum; 0.1 in a pilot on other seeds, and "
          "0.06 after seven times the tokens", "shape",
          "continued models that stayed finite; the sum gets the free factors, none is taken", 5),
    Claim("text-ensemble", "S0 Theorem 25", "Much of what one layer gains over the bigram table, "
          "bigrams and skip-trigrams gain too: share of the gain that the sum over sources has",
          "text-ensemble", at_least(0.5), "more than half; 0.5 and 0.7 in "
          "pilots on other seeds, rising with the steps",
          "shape", "as text-additivity-gap", 5),
    Claim("additivity-gap", "S0 Theorem 25; S4; Shlegeris 2023 (E11)", "On 'a unless b' one head "
          "beats every sum of skip-trigrams: held-out nats an answer", "additivity-gap",
          at_least(0), "a relation; 0.029 at the optimum of both. The recipe was changed after a "
          "run on seed 0, where few heads learned the rule", "shape",
          "seeds whose head learned the rule (P(out) over 0.75 with a alone)", 8),
    Claim("additive-loss", "S0 Theorem 25; S4 (E11)", "On 'a unless b' the best sum of "
          "skip-trigrams misses the optimum: its held-out loss less the entropy of the answers, "
          "nats", "additive-loss", near(0.0289, 0.01), "a logistic regression on the presence of a "
          "and of b, solved exactly; the table is fitted to 2,048 texts, which adds a little",
          "number", "all seeds", 8),
)  # fmt: skip


def estimates(data: xr.Dataset) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Means over seeds of what each claim names, and the claims whose precondition fails."""
    alive = data.isel(member=np.flatnonzero(data.alive.values))
    best = alive.top_5.max("head") / (5 / data.sizes["token"])
    said = np.log(np.maximum(alive.bug_said, TINY) / np.maximum(alive.bug_without, TINY))
    measured = {
        "ov-random": mean_estimate(alive.copying_at_init.mean("head")),
        "ov-copying-rise": mean_estimate((alive.copying - alive.copying_at_init).mean("head")),
        "ov-most-copy": mean_estimate((alive.copying > COPIES).mean("head")),
        "copying-top-5": mean_estimate(best),
        "bugs-cost": mean_estimate(alive.bug_price),
        "additive-loss": mean_estimate(data.additive_loss - data.optimal_loss),
    }
    unmet = {}
    # A member none of whose pairs stands in the windows looked at has nothing to say.
    said = said.mean("bug").values
    if np.isfinite(said).any():
        logs = mean_estimate(said[np.isfinite(said)])
        value, low, high = (float(np.exp(end)) for end in (logs.value, logs.low, logs.high))
        measured["bugs-said"] = Estimate(value, low, high, logs.n, "geometric " + logs.method)
    else:
        unmet["bugs-said"] = "no pair of a bug stands in the windows looked at"
    measured |= _on_text(data)
    if "text-additivity-gap" not in measured:
        unmet |= dict.fromkeys(("text-additivity-gap", "text-ensemble"), "no model stayed finite")
    runs = data.isel(run=np.flatnonzero(learned(data).values))
    if runs.sizes["run"]:
        measured["additivity-gap"] = mean_estimate(runs.gap)
    else:
        unmet["additivity-gap"] = "no seed learned the rule"
    return measured, unmet


def _on_text(data: xr.Dataset) -> dict[str, Estimate]:
    """Losses of every arm at both ends, and what they differ by, member by member."""
    both = np.isfinite(data.text_softmax_end) & np.isfinite(data.text_sum_end)
    kept = data.isel(continued=np.flatnonzero(both.values))
    if not kept.sizes["continued"]:
        return {}
    found = {}
    for arm in ("softmax", "sum", "tables"):
        for end in ("start", "end"):
            losses = kept[f"text_{arm}_{end}"].values
            if np.isfinite(losses).any():
                found[f"text-{arm}-{end}"] = mean_estimate(losses[np.isfinite(losses)])
    gap = kept.text_sum_end - kept.text_softmax_end
    share = (kept.bigram_loss - kept.text_sum_end) / (kept.bigram_loss - kept.text_softmax_end)
    return found | {
        "text-additivity-gap": mean_estimate(gap),
        "text-ensemble": mean_estimate(share),
    }


def learned(data: xr.Dataset) -> xr.DataArray:
    """Seeds whose head tells a alone from the other cells; the others sit on a plateau."""
    return data.gap_alive & (data.p_out.isel(cell=1) > LEARNED)
