"""cost_of_size: exponents and ends from known costs, what is drawn, and what is computed."""

import jax
import numpy as np
import pytest
import xarray as xr

from circuitax.figures.spec import draw_all
from circuitax.records.record import Record
from experiments.paths.cost_of_size.claims import CLAIMS
from experiments.paths.cost_of_size.experiment import Spec
from experiments.paths.cost_of_size.figure import FIGURES, PANELS
from experiments.paths.cost_of_size.measures import (
    MEGABYTES,
    SECONDS,
    end_of_one_machine,
    exponent,
    measure,
)
from experiments.paths.cost_of_size.works import WORKS, paths, processor_seconds, vocabulary


def known() -> Record:
    """Seconds 3e-5 · size² at the three largest sizes, not at the first; megabytes 2 · size."""
    size = np.array([10.0, 100.0, 200.0, 400.0])
    seconds = 3e-5 * size**2
    seconds[0] = 0.5
    shape = (len(WORKS), 4)
    data = xr.Dataset(
        {
            "size": (("grows", "step"), np.broadcast_to(size, shape)),
            "seconds": (("grows", "step", "round"), np.broadcast_to(seconds[:, None], (*shape, 2))),
            "megabytes": (("grows", "step"), np.broadcast_to(2 * size, shape)),
        },
        coords={"grows": list(WORKS)},
    )
    return Record(data=data, notes={})


def test_exponents_are_those_of_the_largest_sizes() -> None:
    found = measure(known()).estimates
    for name in WORKS:
        assert found[f"cost-{name}"].value == pytest.approx(2)
        assert found[f"cost-{name}-memory"].value == pytest.approx(1)
        assert found[f"cost-{name}"].n == 6 and found[f"cost-{name}-memory"].n == 3


def test_two_sizes_have_an_exponent_without_an_interval() -> None:
    found = exponent(known().data.isel(step=[1, 3]), "heads", "megabytes")
    assert found.value == found.low == found.high == pytest.approx(1) and found.n == 2


def test_one_machine_ends_where_the_first_limit_is_reached() -> None:
    data = known().data
    size, first = end_of_one_machine(data, "heads")
    assert first == "megabytes" and size == pytest.approx(MEGABYTES / 2)
    data["megabytes"] = 50 + data["size"] / 10  # a constant, and a part in proportion
    data["seconds"] = data.seconds / 1e6
    size, first = end_of_one_machine(data, "heads")
    assert first == "megabytes" and size == pytest.approx(10 * (MEGABYTES - 50))
    data = known().data
    data["megabytes"] = data.megabytes * 0 + 5
    size, first = end_of_one_machine(data, "heads")
    assert first == "seconds" and size == pytest.approx((SECONDS / 3e-5) ** 0.5)


def test_every_panel_states_its_exponents_and_its_end() -> None:
    (figure,) = draw_all(FIGURES, known()).values()
    assert len(figure.axes) == len(WORKS)
    for ax in figure.axes:
        title = ax.get_title()
        assert title.startswith(r"time $\propto n^{2.00}$, memory $\propto n^{1.00}$")
        assert title.endswith("\nends near 8.2k, by memory")
        assert [tick.get_text() for tick in ax.get_xticklabels()] == ["10", "100", "200", "400"]
        assert ax.get_xlabel() and ax.get_xscale() == ax.get_yscale() == "log"


def test_dotted_lines_have_the_slopes_that_claims_allow() -> None:
    (figure,) = draw_all(FIGURES, known()).values()
    allowed = {claim.quantity: claim.expected.high for claim in CLAIMS}
    for name, ax in zip(PANELS, figure.axes, strict=True):
        dotted = [line for line in ax.lines if line.get_linestyle() == ":"]
        wanted = [allowed[f"cost-{name}{end}"] for end in ("", "-memory")[: len(dotted)]]
        assert len(dotted) == (1 if name == "paths" else 2)
        for line, slope, solid in zip(dotted, wanted, (2, 1), strict=False):
            x, y = line.get_data()
            assert np.polyfit(np.log(x), np.log(y), 1)[0] == pytest.approx(slope)
            # From the first size that exponents are measured at, where the curve is.
            start = 3e-5 * 100**2 if solid == 2 else 2 * 100
            assert (x[0], x[-1]) == (100, 400) and y[0] == pytest.approx(start)
    assert allowed["cost-vocabulary"] == 2.2 and allowed["cost-members"] == 1.1


def test_the_headline_counts_what_is_drawn() -> None:
    record = known()
    record.data["seconds"] = record.data.seconds**0.95  # exponents of 1.9, and of 1 in memory
    record.data["seconds"][{"grows": 1, "step": -1, "round": 0}] *= 1.5
    (figure,) = draw_all(FIGURES, record).values()
    said = figure.get_suptitle().replace("\n", " ")
    assert said == (
        "7 of 11 exponents of cost are as claimed; undecided: time over vocabulary; "
        "fails: time over paths, time over members, time over dimensions"
    )
    (note,) = [legend.get_title().get_text() for legend in figure.legends]
    assert note == "2 rounds; bars from least to greatest; exponents at the 3 largest sizes"


def test_no_line_is_continued_without_end() -> None:
    record = known()
    record.data["megabytes"] = record.data.megabytes * 0 + 5
    record.data["seconds"] = record.data.seconds**0.1
    (figure,) = draw_all(FIGURES, record).values()
    assert all(ax.get_title().endswith("\nends beyond 4M") for ax in figure.axes)


def test_the_largest_entries_and_their_memory() -> None:
    work = vocabulary(jax.random.key(0), 120)
    left, right = (
        np.asarray(jax.random.normal(k, (120, 64))) for k in jax.random.split(jax.random.key(0))
    )
    want = np.sort((left @ right.T).ravel())[::-1][:100]
    np.testing.assert_allclose(work.compute().values, want, rtol=1e-4)
    assert work.size == 120
    assert 2 * 4 * 120 * 64 / 2**20 <= work.megabytes() < 1


def test_paths_are_counted_and_all_found() -> None:
    work = paths(jax.random.key(0), 2)
    assert work.size == 81 and work.compute().complete
    assert work.megabytes() > 0.1


@pytest.mark.parametrize(("seconds", "calls"), [(0.03, 4), (0.5, 1)])
def test_processor_time_is_that_of_one_call(
    monkeypatch: pytest.MonkeyPatch, seconds: float, calls: int
) -> None:
    """By a clock that goes on by what each call takes, until a tenth of a second is full."""
    clock = [7.0]
    monkeypatch.setattr("time.process_time", lambda: sum(clock))
    assert processor_seconds(lambda: clock.append(seconds), least=0.1) == pytest.approx(seconds)
    assert len(clock) == 1 + calls


def test_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"points=\(5,\)"):
        Spec(points=(5,))
    with pytest.raises(ValueError, match="dimensions"):
        Spec(dimensions=(8, 16))
    with pytest.raises(ValueError, match="vocabulary"):
        Spec(vocabulary=(1000, 2**33))
