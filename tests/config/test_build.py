"""From a composed configuration to a spec: tuples, checks, and one line about what is wrong."""

import dataclasses
import math
import typing
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ValidationError

from circuitax import memory
from circuitax.config.build import build, reject_unknown
from circuitax.config.catalogue import discover
from circuitax.config.identity import outside_inputs
from circuitax.config.planned_runs import plan
from circuitax.config.scale import register_resolvers
from circuitax.config.schema import ConfigError, fields, writable
from circuitax.data.corpus import TextError
from circuitax.kernel.spec import TransformerSpec


@dataclass(frozen=True)
class Inner:
    width: int = 2

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"width={self.width} must be at least 1")


@dataclass(frozen=True)
class Outer:
    inner: Inner
    many: tuple[Inner, ...] = ()
    grid: tuple[int, ...] = ()
    table: dict[str, int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.grid, tuple):
            raise ValueError("checks see tuples")
        if len(self.many) > 2:
            raise ValueError(f"{len(self.many)} are too many")


def config(text: str) -> DictConfig:
    node = writable(Outer)
    node.merge_with(OmegaConf.create(text))
    return node


def test_lists_become_tuples_at_every_depth() -> None:
    found = build(Outer, config("{inner: {width: 3}, many: [{width: 4}], grid: [1, 2]}"))
    assert found == Outer(Inner(3), (Inner(4),), (1, 2))
    assert hash(found) == hash(Outer(Inner(3), (Inner(4),), (1, 2)))


def test_a_list_that_follows_the_scale_becomes_a_tuple() -> None:
    register_resolvers()
    node = config("{inner: {}, many: [], grid: '${by_scale:[1],[2,3],[]}'}")
    root = OmegaConf.create({"scale": "quick", "experiment": node})
    assert build(Outer, root.experiment).grid == (2, 3)


def test_plain_groups_stay_plain() -> None:
    found = build(Outer, config("{inner: {}, many: [], grid: [], table: {a: 1}}"))
    assert found.table == {"a": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{inner: {width: 0}, many: [], grid: []}", r"inner.width=0 must be at least 1$"),
        ("{inner: {}, many: [{width: -2}], grid: []}", r"many\[0\].width=-2 must be"),
        ("{inner: {}, many: [{}, {}, {}], grid: []}", "^3 are too many$"),
        (
            "{inner: {width: '${nowhere}'}, many: [], grid: []}",
            r"inner.width=.* must be an integer",
        ),
    ],
)
def test_errors_carry_the_whole_path(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(Outer, config(text))


def test_unknown_keys_are_rejected_wherever_they_come_from() -> None:
    known = {"inner", "inner.width", "many"}
    reject_unknown(known, OmegaConf.create({"inner": {"width": 1}, "many": [{"any": 1}]}))
    bad = OmegaConf.create({"inner": {"widht": 1}})
    with pytest.raises(ConfigError, match=r"inner.widht=1 is not a field \(did you mean 'inner.wi"):
        reject_unknown(known, bad)


def test_a_missing_value_is_named() -> None:
    node = config("{inner: {}, many: [], grid: []}")
    node.inner.width = "???"  # merging it would leave the default in place
    with pytest.raises(ConfigError, match=r"inner.width is missing, it must be an integer"):
        build(Outer, node)


def test_wrong_values_of_every_field_cost_one_line() -> None:
    """Every field of every experiment: numbers beyond bounds, 0, below 0, not finite; other kinds.

    Texts are tried as files that are not there or of another kind. A field that several experiments
    share, such as those of the optimizer, is tried once.
    """
    entries, tried, untried = discover(), set(), set()
    for name in sorted(entries):
        (cell,) = plan([f"experiment={name}", "scale=tiny"], entries)[1]
        spec = type(cell.spec)
        typed = writable(spec)
        whole = OmegaConf.create(cell.config)
        typed.merge_with(OmegaConf.masked_copy(whole, [str(key) for key in typed]))
        build(spec, typed)
        for path, hint in fields(spec):
            parents, _, field = path.rpartition(".")
            owner = type(reduce(getattr, parents.split("."), cell.spec)) if parents else spec
            if (owner, field) in tried:
                continue
            tried.add((owner, field))
            place = f"{name}.{path}" if owner is spec else f"{owner.__name__}.{field}"
            values = wrong_values(place, hint, getattr(owner, field, None))
            if not (values or dataclasses.is_dataclass(hint)):
                untried.add(place)
            for value in values:
                config = typed.copy()
                with pytest.raises((ConfigError, ValidationError, TextError)) as caught:
                    OmegaConf.update(config, path, [value] if "tuple" in str(hint) else value)
                    outside_inputs(build(spec, config))
                if caught.type is not ValidationError:
                    text = str(caught.value)
                    assert field in text, text
                    assert "\n" not in text and len(text) < 400, text
    assert len(tried) > 200
    assert untried == {"TextSpec.column"}


@pytest.mark.parametrize(
    "path", ["optim.steps", "seeds", "restarts", "crossover_points", "chunk", "model.n_hidden"]
)
def test_counts_beyond_memory_are_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = plan(["experiment=toy_intro", "scale=tiny"], discover())[1]
    config = writable(type(cell.spec))
    known = [str(key) for key in config]
    config.merge_with(OmegaConf.masked_copy(OmegaConf.create(cell.config), known))
    OmegaConf.update(config, path, 2**31 - 1)
    monkeypatch.setattr(memory, "machine_bytes", lambda: 10**11)
    with pytest.raises(ConfigError, match=f"^{path}=2147483647 must be smaller: 64 bytes for each"):
        build(type(cell.spec), config)
    # With more memory it is no longer the count as such that is too much.
    monkeypatch.setattr(memory, "machine_bytes", lambda: 10**12)
    with pytest.raises(ConfigError, match=r"^(?!.*64 bytes)"):
        build(type(cell.spec), config)


@pytest.mark.parametrize(
    "sizes",
    [{"d_model": 2**20, "d_head": 8}, {"n_layers": 2**24}, {"d_vocab": 2**29}, {"d_mlp": 2**28}],
)
def test_weights_beyond_memory_are_refused(sizes: dict[str, int]) -> None:
    config = writable(TransformerSpec)
    config.merge_with({"n_heads": 2**10, "d_model": 2**11} | sizes)
    with pytest.raises(ConfigError, match=r"^d_model=\d+ must be smaller \(with n_layers=\d+, "):
        build(TransformerSpec, config)


def wrong_values(place: str, hint: Any, default: Any) -> list[object]:
    """What the field at a place must refuse, by its type."""
    if hint is Any:  # a list whose items are of the default's type
        while isinstance(default, tuple):
            default = default[0]
        found = [*WRONG[type(default)], ["much", default]]
    elif isinstance(hint, type) and issubclass(hint, Enum):
        found = ["no-such-name", 0.5]
    else:
        found = [value for kind in plain_types(hint) for value in WRONG[kind]]
    found = [value for value in found if value not in MEANT.get(place, ())]
    return [2**63 if value == 2**31 else value for value in found] if "seed" in place else found


def plain_types(hint: Any) -> set[type]:
    """The types of `WRONG` of which a type is made."""
    return {hint} & WRONG.keys() | {t for part in typing.get_args(hint) for t in plain_types(part)}


FILES = ("/no/such/file", "no-such-name", __file__)
WRONG: dict[Any, list[object]] = {
    int: [-1, 0, 2**31, 2**63, 1.5, "many"],
    float: [-1.0, 0.0, math.inf, math.nan, "much"],
    bool: [0.5, "perhaps"],
    str: [*FILES],
}
# Values that have a meaning in some fields.
MEANT: dict[str, tuple[object, ...]] = {
    "OptimSpec.weight_decay": (0.0,),
    "OptimSpec.b1": (0.0,),
    "OptimSpec.b2": (0.0,),
    "OptimSpec.momentum": (0.0,),
    "OptimSpec.end_fraction": (0.0,),
    "OptimSpec.warmup_steps": (0,),
    "SparseTask.sparsity": (0.0,),  # every feature is always active
    "TextSpec.path": (__file__,),  # a text
    "TextSpec.column": FILES,  # read with a data set alone, whose columns it is held against
    "TextSpec.cache": FILES[:2],  # a folder that is made
    "ToySpec.init_std": (0.0,),
    "TransformerSpec.n_layers": (0,),  # a table of bigrams
    "TransformerSpec.score_scale": (0.0, -1.0),  # even attention, and attention turned around
    "TransformerSpec.start_token": (0,),
    "TransformerSpec.init_scale": (0.0,),
    "TransformerSpec.init_embed": (0.0,),
    "english_models.halvings": (0,),
    "english_models.full_seeds": (0,),
    "published_weights.previous": (0,),  # a head, as are the next
    "published_weights.inducers": (0,),
    "text_induction.repeated_share": (0.0,),
    "text_models.halvings": (0,),
    "text_models.full_seeds": (0,),
    "toy_adversarial.defence": (0.0,),
    "toy_constructive.strength": (0.0,),  # independent neighbours
    "toy_correlated.restarts": (0,),  # beside those from trained networks
    "toy_demonstrate.climbs": (0,),
    "toy_demonstrate.restarts": (0,),
    "toy_geometry.spread": (0.0,),
    "toy_intro.restarts": (0,),  # no exact optimum
    "toy_memorization.decay": (0.0,),
    "toy_scaling.decay": (0.0, -1.0),  # an exponent
}


@pytest.mark.parametrize("typed", [".nan", "-.inf", f"1{400 * '0'}.5"])
def test_numbers_are_finite(typed: str) -> None:
    @dataclass(frozen=True)
    class Rate:
        rate: float = 1.0

    node = writable(Rate)
    node.merge_with(OmegaConf.create(f"{{rate: {typed}}}"))
    with pytest.raises(ConfigError, match=r"^rate=(nan|-?inf) must be a finite number$"):
        build(Rate, node)
