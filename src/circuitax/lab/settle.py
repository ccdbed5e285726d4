"""Settle the rows of a finished run from its saved record alone."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import xarray as xr

from circuitax.config.catalogue import ExperimentEntry
from circuitax.lab.runs import CLAIMS, SETTLED, place_of, whole
from circuitax.lab.source import source_hash
from circuitax.records.estimate import Estimate
from circuitax.records.record import DATA, Record
from circuitax.records.rows import SettledQuantity, SettledRow, row_from_json, row_to_json
from circuitax.records.rule import (
    COMPARISON,
    FEWEST_DRAWS,
    NETWORK,
    NOT_TESTED,
    NUMBER,
    Control,
    Judgement,
    judge_network,
    judge_number,
    judge_relation,
    judge_row,
)
from circuitax.records.sample import Absent, NotRun, Sample
from circuitax.records.store import checksums, write_json
from circuitax.records.table import ControlText, Quantity, Row
from circuitax.records.worlds import FIXED, GENERIC, World


def settle_run(folder: Path, entry: ExperimentEntry) -> list[SettledRow]:
    """Every row of an experiment with its word, from the record of one run.

    ``claims.json`` keeps the outcome. It is made again when the table or the readings have changed,
    or the file is damaged, but never from damaged data.

    Raises:
        DamagedRun: If the run is not whole; what was settled stays as it was.
        ValueError: If a reading fails; the message names its file and line.
    """
    source = _source(entry)
    if _is_settled(folder, source):
        found = json.loads((folder / CLAIMS).read_text(encoding="utf-8"))
        return [row_from_json(item) for item in found]
    rows = settle_rows(Record.load(whole(folder)).noted, entry)
    write_json(folder / CLAIMS, [row_to_json(row) for row in rows])
    write_json(folder / SETTLED, {"source": source, "sha256": _files(folder)})
    return rows


def settle_rows(data: xr.Dataset, entry: ExperimentEntry) -> list[SettledRow]:
    """Every row of an experiment with its word, from the data of a record with its notes."""
    table = entry.table
    if not table.rows:
        return []
    readings = _Readings(entry.load("readings"), data)
    return [_settle_row(row, readings) for row in table.rows]


def _settle_row(row: Row, readings: "_Readings") -> SettledRow:
    if row.absent:
        return SettledRow(row, NOT_TESTED, row.absent, ())
    found = tuple(_settle_quantity(quantity, readings) for quantity in row.quantities)
    judged = [each.word for each in found if each.quantity.rule != COMPARISON]
    if not judged:  # printed beside, not judged, not counted
        return SettledRow(row, "", "", found)
    word = judge_row(judged)
    whys = dict.fromkeys(each.why for each in found if each.word == NOT_TESTED and each.why)
    return SettledRow(row, word, "; ".join(whys) if word == NOT_TESTED else "", found)


def _settle_quantity(quantity: Quantity, readings: "_Readings") -> SettledQuantity:
    try:
        x = _estimate(readings.take(quantity.measure, quantity.at, quantity.id))
    except (Absent, NotRun) as reason:
        return SettledQuantity(quantity, None, None, NOT_TESTED, str(reason))
    control = readings.control(quantity)
    judged = Judgement("", "")
    if np.isnan(x.value):
        judged = Judgement(NOT_TESTED, "this run has no such number")
    elif quantity.control is not None and control is None:
        judged = Judgement(NOT_TESTED, "the control has no such number")
    elif quantity.rule == NUMBER:
        judged = judge_number(x, quantity.number, quantity.precision, control)
    elif quantity.rule == NETWORK and control is not None:
        judged = judge_network(x, control)
    elif quantity.rule != COMPARISON:
        judged = judge_relation(x, quantity.side == "above", quantity.than, control)
    return SettledQuantity(quantity, x, control, judged.word, judged.why)


class _Readings:
    """The functions of ``readings.py`` on one record and on its altered copies, each taken once."""

    def __init__(self, module: ModuleType, data: xr.Dataset) -> None:
        self.module, self.data = module, data
        self.taken: dict[tuple[str, int, str, str], Any] = {}
        self.altered: dict[str, list[xr.Dataset]] = {}

    def take(
        self, measure: str, at: Mapping[str, Any], name: str, world: str = "", draw: int = 0
    ) -> Any:
        """The sample of a quantity; one of those of the function where it gives several by name."""
        key = (world, draw, measure, json.dumps(at, sort_keys=True))
        if key not in self.taken:
            data = self.altered[world][draw] if world else self.data
            try:
                self.taken[key] = self._function(measure)(data, **at)
            except (Absent, NotRun) as reason:
                self.taken[key] = reason
            except Exception as error:
                what = f"{measure}({dict(at)}){' in the control ' + world if world else ''}"
                raise ValueError(
                    f"{place_of(error)}: {what} failed: {type(error).__name__}: {error}"
                ) from error
        found = self.taken[key]
        if isinstance(found, Mapping):
            if name not in found:
                raise NotRun("this run has other settings")
            found = found[name]
        if isinstance(found, Exception):
            raise found
        return found

    def control(self, quantity: Quantity) -> Control | None:
        """What the control of a quantity gives; None if it has no number, or there is none."""
        text = quantity.control
        if text is None:
            return None
        if text.value is not None:
            number = float(text.value)
            return Control(number, number, number, 1)
        if text.measure:
            draws = [self._or_none(text.measure, text.at, quantity.id)]
        else:
            key = self._alter(text)
            draws = [
                self._or_none(quantity.measure, quantity.at, quantity.id, key, draw)
                for draw in range(len(self.altered[key]))
            ]
        known = [draw for draw in draws if draw is not None and not np.isnan(draw.value)]
        if not known:
            return None
        if len(draws) == 1:
            x = _estimate(known[0])
            return Control(x.low, x.value, x.high, 1)
        ends = (0.05, 0.5, 0.95) if len(known) >= FEWEST_DRAWS else (0.0, 0.5, 1.0)
        low, median, high = (float(np.quantile([x.value for x in known], q)) for q in ends)
        return Control(low, median, high, len(known))

    def _or_none(self, *of: Any) -> Sample | Estimate | None:
        try:
            found: Sample | Estimate = self.take(*of)
        except (Absent, NotRun):
            return None
        return found

    def _alter(self, text: ControlText) -> str:
        """The altered records of a control, made once, and their name."""
        key = json.dumps([text.world, text.arguments, text.draws], sort_keys=True)
        if key not in self.altered:
            fixed = text.world in FIXED
            own: Mapping[str, World] = getattr(self.module, "WORLDS", {})
            if text.world not in GENERIC and text.world not in own:
                raise ValueError(f"world={text.world!r} must be in WORLDS of readings.py")
            generic = GENERIC.get(text.world)
            world = own[text.world] if generic is None else generic(**text.arguments)
            rngs = (np.random.default_rng(draw) for draw in range(1 if fixed else text.draws))
            self.altered[key] = [world(self.data, rng) for rng in rngs]
        return key

    def _function(self, measure: str) -> Callable[..., Any]:
        function: Callable[..., Any] | None = getattr(self.module, measure, None)
        if function is None:
            raise ValueError(f"measure={measure!r} must be a function of readings.py")
        return function


def _estimate(found: Sample | Estimate) -> Estimate:
    return found if isinstance(found, Estimate) else found.estimate()


def _is_settled(folder: Path, source: str) -> bool:
    try:
        kept = json.loads((folder / SETTLED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(kept == {"source": source, "sha256": _files(folder)})


def _files(folder: Path) -> dict[str, str]:
    return checksums(folder, (DATA, CLAIMS))


def _source(entry: ExperimentEntry) -> str:
    files = (entry.folder / "claims.toml", entry.file("readings"))
    return source_hash([path for path in files if path.is_file()])
