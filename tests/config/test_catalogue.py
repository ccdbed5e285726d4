"""Experiments are found by their tables, without importing them."""

from dataclasses import replace
from pathlib import Path

import pytest

from circuitax.config.catalogue import VARIABLE, ExperimentEntry, discover, upstream_order

Entries = dict[str, ExperimentEntry]


def test_experiments_come_by_chapter_and_those_of_a_folder_last(entries: Entries) -> None:
    assert list(entries)[-2:] == ["house_reader", "house_walk"]
    walk = entries["house_walk"]
    assert (walk.package, walk.title, walk.requires) == ("house_walk", "A random walk", ())
    assert [walk.seconds(scale) for scale in ("tiny", "quick", "paper")] == [None, 2, 7200]


def test_an_experiment_comes_after_what_it_reads(entries: Entries) -> None:
    assert upstream_order("house_reader", entries) == ["house_walk", "house_reader"]
    walk = entries["house_walk"]
    round_trip = {**entries, "house_walk": replace(walk, table=entries["house_reader"].table)}
    with pytest.raises(ValueError, match="circle"):
        upstream_order("house_reader", round_trip)


def test_one_name_in_two_folders_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("a", "b"):
        (tmp_path / place / "mine").mkdir(parents=True)
        (tmp_path / place / "mine" / "claims.toml").write_text('title = "A"\nmessage = "B."\n')
    monkeypatch.setenv(VARIABLE, f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    with pytest.raises(ValueError, match="'mine' is in two folders"):
        discover()
