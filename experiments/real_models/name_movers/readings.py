"""Name movers of a real model: what is read from the record, and its figure."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import reference_line
from circuitax.figures.palette import BLUE, GREY, ORANGE
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.estimate import exact
from circuitax.records.sample import Sample, mean_of, sample
from experiments.real_models.shared.model_facts import model_read, of_smollm2


def other_heads(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """As many random heads of the second half of the layers in the place of the chosen ones."""
    n_heads = data.sizes["head"]
    n_cells = data.sizes["layer"] * n_heads
    cells = n_cells // 2 + rng.choice(n_cells - n_cells // 2, data.sizes["rank"], replace=False)
    rows, columns = np.divmod(cells, n_heads)
    return data.assign(mover_layer=("rank", rows), mover_head=("rank", columns))


WORLDS = {"other heads": other_heads}


def task(data: xr.Dataset) -> Sample:
    """Share of sentences in which the indirect object leads over the subject."""
    return mean_of((leads(of_smollm2(data)) > 0).astype(float), bounds=(0, 1))


def attend(data: xr.Dataset) -> Sample:
    """Attention of the chosen heads from the end to the indirect object."""
    to_object, _ = attention_of_movers(data)
    return mean_of(to_object.mean(axis=0))


def attend_rather(data: xr.Dataset) -> Sample:
    """That attention less the attention to both places of the subject."""
    to_object, to_subject = attention_of_movers(data)
    return mean_of((to_object - to_subject).mean(axis=0))


def copy(data: xr.Dataset) -> Sample:
    """Correlation of attention to a name and direct effect on its logit, mean over the heads.

    It has no interval: the heads of one model are no sample.
    """
    direct = of_movers(data, "direct")
    each = [
        _correlation(np.concatenate(to), np.concatenate(raised))
        for to, raised in zip(
            np.stack(attention_of_movers(data), axis=1), np.moveaxis(direct, -1, 1), strict=True
        )
    ]
    method = f"one model: mean of {len(each)} heads, {min(each):.2f} at least"
    return sample(exact(float(np.mean(each)), data.sizes["sentence"])._replace(method=method))


def attention_of_movers(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Attention of the chosen heads to the indirect object and to both places of the subject."""
    attention = of_movers(data, "attention")
    return attention[..., 0], attention[..., 1:].sum(axis=-1)


def of_movers(data: xr.Dataset, name: str) -> np.ndarray:
    """A variable of the chosen heads on the sentences that they were not chosen on."""
    seen = of_smollm2(data)[name].isel(half=1)
    heads = zip(data.mover_layer.values, data.mover_head.values, strict=True)
    return np.stack([seen.isel(layer=i, head=h).values for i, h in heads])


def leads(data: xr.Dataset) -> np.ndarray:
    """Logit of the indirect object minus that of the subject, of each sentence."""
    logit = data.logit.isel(half=1).values
    return np.asarray(logit[:, 0] - logit[:, 1])


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else 0.0


def movers(data: xr.Dataset) -> Figure:
    """Direct effect of each head by layer, and effects of the chosen heads by their attention."""
    figure, axes = new_figure(1, 2, height=3.0)
    left, right = axes[0]
    seen = data.isel(half=1)
    effect = seen.direct.sel(name="indirect object") - seen.direct.sel(name="subject")
    mean = effect.mean("sentence").transpose("layer", "head").values
    layers = np.repeat(np.arange(mean.shape[0]), mean.shape[1])
    left.plot(layers, mean.ravel(), ".", color=GREY, markersize=3)
    chosen = list(zip(data.mover_layer.values, data.mover_head.values, strict=True))
    left.plot([i for i, _ in chosen], [mean[i, h] for i, h in chosen], "o", color=ORANGE)
    for i, h in chosen:
        left.annotate(f" {i}.{h}", (i, mean[i, h]), fontsize=6)
    reference_line(left, y=0)
    left.set(xlabel="layer", ylabel="direct effect on the lead", title=model_read(data.attrs))
    for name, colour, marker in (("indirect object", ORANGE, "o"), ("subject", BLUE, "x")):
        places = [place for place in data.place.values if str(place).startswith(name)]
        for n, (i, h) in enumerate(chosen):
            at = seen.isel(layer=i, head=h)
            to = at.attention.sel(place=places).sum("place").values
            label = f"the {name}" if n == 0 else None
            raised = at.direct.sel(name=name).values
            right.plot(to, raised, marker, color=colour, markersize=3, label=label)
    right.set(xlabel="attention from the end to the name", ylabel="direct effect on its logit")
    right.set_title("The chosen heads, other names")
    right.legend()
    letter_panels(axes[0])
    return figure
