"""Settings of twins: of a new one from ``conf/twins.yaml``, of an old one from its own file."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from circuitax.config.build import build
from circuitax.config.catalogue import ExperimentEntry, checkout, upstream_order
from circuitax.config.identity import canonical, outside_inputs
from circuitax.config.planned_runs import PlannedRun, plan
from circuitax.config.scale import Precision, RunSettings, Scale
from circuitax.config.schema import ConfigError, writable

FILE = "twins.yaml"


class Settings(NamedTuple):
    """All fields of a twin and of its upstream runs, fixed for later code.

    Attributes:
        seed: Root of all randomness.
        dtype: Type of the numbers computed with.
        specs: Fields of each experiment's spec as plain values, the twin's own experiment last.
    """

    seed: int
    dtype: str
    specs: dict[str, dict[str, Any]]


def twin_cases(name: str) -> dict[str, dict[str, Any]]:
    """The fields that differ from tiny scale, by dotted path, in each case of an experiment."""
    return dict(_declared(name).get("cases", {"small": {}}))


def varying(name: str) -> tuple[str, ...]:
    """The nondeterministic variables of an experiment's twin."""
    return tuple(_declared(name).get("varies", ()))


def new_settings(
    name: str,
    fields: Mapping[str, Any],
    entries: dict[str, ExperimentEntry],
    *,
    seed: int,
    dtype: str,
) -> Settings:
    """The settings of a twin, composed at tiny scale.

    Args:
        name: Experiment.
        fields: Values that differ from tiny scale, by dotted path.
        entries: All experiments.
        seed: Root of all randomness.
        dtype: ``float32`` or ``float64``.

    Raises:
        ConfigError: If a field does not exist or has an impossible value.
    """
    typed = [f"{path}={_plain(value)}" for path, value in fields.items()]
    job = [f"experiment={name}", "scale=tiny", f"seed={seed}", f"dtype={dtype}", *typed]
    (planned,) = plan(job, entries)[1]
    return Settings(seed, dtype, _specs(planned))


def planned_twin(settings: Settings, entries: dict[str, ExperimentEntry]) -> PlannedRun:
    """The run of these settings; later fields have their defaults.

    Raises:
        ConfigError: If an experiment or a field is not there any more, or a value not allowed.
    """
    runs: dict[str, PlannedRun] = {}
    for name in upstream_order(list(settings.specs)[-1], entries):
        if name not in settings.specs:
            raise ConfigError(f"twin: {name} is read now and has no settings in it")
        kind = entries[name].load().Spec
        root = RunSettings(name, Scale.tiny, settings.seed, Precision[settings.dtype])
        try:
            config = OmegaConf.merge(writable(kind), OmegaConf.create(settings.specs[name]))
        except OmegaConfBaseException as error:
            raise ConfigError(f"twin of {name}: {str(error).splitlines()[0]}") from error
        if not isinstance(config, DictConfig):
            raise ConfigError(f"twin of {name}: its settings must be fields by name")
        spec = build(kind, config)
        inputs = tuple(runs[item] for item in entries[name].requires)
        outside = tuple(outside_inputs(spec).items())
        text = OmegaConf.to_yaml(config, resolve=True)
        runs[name] = PlannedRun(entries[name], root, spec, (), text, inputs, outside)
    return runs[name]


def _specs(planned: PlannedRun) -> dict[str, dict[str, Any]]:
    """Specs of a run and of all its upstream runs, in order of reading."""
    found: dict[str, dict[str, Any]] = {}
    for item in planned.inputs:
        found |= _specs(item)
    return found | {planned.entry.name: canonical(planned.spec)}


def _plain(value: Any) -> str:
    """A value in Hydra's grammar."""
    if isinstance(value, list):
        return f"[{','.join(map(_plain, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _declared(name: str) -> dict[str, Any]:
    return dict(_file().get(name, {}))


@lru_cache(maxsize=1)
def _file() -> dict[str, Any]:
    path = checkout() / "conf" / FILE
    if not path.is_file():
        return {}
    return cast(dict[str, Any], OmegaConf.to_container(OmegaConf.load(path)))
