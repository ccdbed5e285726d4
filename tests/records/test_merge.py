"""Merging: jobs and vmapped axes give one dataset, and nothing goes missing in silence."""

import numpy as np
import pytest
import xarray as xr

from circuitax.records.merge import Part, axis_names, merge, missing_text


def loss(width: float, density: float, member: int) -> float:
    return 100 * width + 10 * density + member


def part(name: str, point: dict, widths, densities, members: int = 2) -> Part:
    """A run whose loss says which cell it is; an axis given as a number is no dimension."""
    w, d = np.atleast_1d(widths), np.atleast_1d(densities)
    values = loss(w[:, None, None], d[None, :, None], np.arange(members)[None, None, :])
    data = xr.Dataset(
        {"loss": (("width", "density", "member"), values)}, {"width": w, "density": d}
    )
    if np.ndim(widths) == 0:
        data = data.isel(width=0, drop=True)
    if np.ndim(densities) == 0:
        data = data.isel(density=0, drop=True)
    return Part(name, point, data)


def check(data: xr.Dataset, widths: list, densities: list) -> None:
    for w in widths:
        for d in densities:
            for m in range(2):
                found = data["loss"].sel(width=w, member=m).sel(density=d, method="nearest")
                assert float(found) == pytest.approx(loss(w, d, m))


def test_jobs_become_dimensions() -> None:
    parts = [
        part(f"{w}{d}", {"model.width": w, "task.density": d}, w, d)
        for w in (2, 3)
        for d in (0.1, 0.7)
    ]
    found = merge(parts)
    assert dict(found.data.sizes) == {"width": 2, "density": 2, "member": 2}
    assert found.missing == []
    check(found.data, [2, 3], [0.1, 0.7])


def test_jobs_and_an_axis_inside_a_run_merge_alike() -> None:
    inside = part("a", {"task.density": [0.1, 0.7]}, [2.0, 3.0], [0.1, 0.7])
    # float32 on its way: 0.9 is not quite 0.9 any more, and overlaps are the same cell
    one = part("b", {"task.density": [float(np.float32(0.9))]}, [2.0, 3.0], [np.float32(0.9)])
    scalar = part("c", {"task.density": 0.7}, [2.0, 3.0], 0.7)
    found = merge([one, inside, scalar])
    np.testing.assert_allclose(found.data["density"], [0.1, 0.7, 0.9], rtol=1e-6)
    check(found.data, [2, 3], [0.1, 0.7, 0.9])
    again = merge([part(str(d), {"task.density": d}, [2.0, 3.0], d) for d in (0.1, 0.7, 0.9)])
    xr.testing.assert_allclose(found.data.transpose(*again.data["loss"].dims), again.data)


def test_lists_without_entries_merge() -> None:
    # As motifs of which no run found any.
    parts = [part(f"{w}", {"width": w}, w, [0.1, 0.7]) for w in (2, 3)]
    parts = [p._replace(data=p.data.assign(case=("found", np.zeros(0, int)))) for p in parts]
    found = merge(parts)
    assert found.missing == [] and found.data.sizes["found"] == 0
    check(found.data, [2, 3], [0.1, 0.7])
    longer = parts[0]._replace(data=parts[0].data.drop_vars("case").assign(case=("found", [1])))
    assert merge([longer, parts[1]]).missing == ["width=3"]


def test_the_shortest_decimal_names_the_cell() -> None:
    off = float(np.float32(0.7))
    parts = [part("a", {"density": [off]}, 2.0, [off]), part("b", {"density": 0.7}, 2.0, 0.7)]
    assert merge(parts).data["density"].values.tolist() == [0.7]


def test_a_list_field_may_name_its_dimension_otherwise() -> None:
    run = part("a", {"task.rates": [0.1, 0.7]}, 2.0, [0.1, 0.7])
    assert dict(merge([run]).data.sizes) == {"rates": 2, "member": 2}
    with pytest.raises(ValueError, match=r"field task.rates=\[0.1, 0.8\] of run a must be"):
        merge([run._replace(point={"task.rates": [0.1, 0.8]})])


def test_a_swept_field_and_another_dimension_of_its_name_stay_apart() -> None:
    # The swept member is a field of the run; every run has two members of its own.
    parts = [
        part(str(m), {"member": m, "task.density": d}, [2, 3], d)._replace(name=f"{m}{d}")
        for m in (0, 1, 5)
        for d in (0.1, 0.7)
    ]
    shifted = [p._replace(data=p.data + 1000 * p.point["member"]) for p in parts]
    for swept in (shifted, [p._replace(data=p.data.assign_coords(member=[0, 1])) for p in shifted]):
        found = merge(swept)
        assert dict(found.data.sizes) == {"run_member": 3, "density": 2, "width": 2, "member": 2}
        assert found.data["run_member"].values.tolist() == [0, 1, 5] and found.missing == []
        for m in (0, 1, 5):
            check(found.data.sel(run_member=m) - 1000 * m, [2, 3], [0.1, 0.7])


def test_missing_cells_are_named_and_not_a_number() -> None:
    cells = [(2, 0.1), (2, 0.7), (3, 0.1)]
    parts = [part(f"{w}{d}", {"width": w, "density": d}, w, d) for w, d in cells]
    found = merge(parts)
    assert found.missing == ["density=0.7, width=3"]
    assert np.isnan(found.data["loss"].sel(width=3, density=0.7)).all()
    assert int(np.isnan(found.data["loss"]).sum()) == 2


def test_missing_members_are_named() -> None:
    parts = [
        part("a", {"width": 2}, 2, [0.1, 0.7], members=2),
        part("b", {"width": 3}, 3, [0.1, 0.7], members=4),
    ]
    assert merge(parts).missing == ["width=2, member=2", "width=2, member=3"]


def test_planned_runs_join_the_axes() -> None:
    found = merge([part("a", {"model.width": 2}, 2, 0.1)], [{"model.width": 5, "other": 1}])
    assert found.data["width"].values.tolist() == [2, 5]
    assert found.missing == ["width=5"]


def test_integers_stay_integers_unless_a_cell_is_missing() -> None:
    def run(seed: int) -> Part:
        return Part(str(seed), {"seed": seed}, xr.Dataset({"count": ((), seed * 2)}))

    assert merge([run(1), run(2)]).data["count"].dtype.kind == "i"
    assert merge([run(1)], [{"seed": 2}]).data["count"].dtype.kind == "f"


def test_runs_that_contradict_each_other_are_refused() -> None:
    first = part("a", {"width": 2}, 2, 0.1)
    second = first._replace(name="b", data=first.data + 1)
    with pytest.raises(ValueError, match="variable 'loss' of run b differs"):
        merge([first, second])


def test_what_has_no_axis_is_left_out_and_named() -> None:
    parts = []
    for density in ([0.1, 0.7], [0.3, 0.5]):
        run = part(str(density), {"density": density}, [2.0], density)
        same, other = xr.Variable((), 1.0), xr.Variable((), density[0])
        parts.append(run._replace(data=run.data.assign(same=same, other=other)))
    found = merge(parts)
    assert found.left_out == ["other"]
    assert float(found.data["same"]) == 1.0


def test_names_and_messages() -> None:
    assert axis_names({"model.n", "task.density"}) == {"model.n": "n", "task.density": "density"}
    assert axis_names({"a.n", "b.n"}) == {"a.n": "a.n", "b.n": "b.n"}
    assert missing_text([f"x={i}" for i in range(14)]).endswith("x=11 and 2 more")
    with pytest.raises(ValueError, match="parts is empty"):
        merge([])


def test_dimensions_must_agree() -> None:
    first = Part("a", {"width": 2}, xr.Dataset({"v": (("x",), [1.0])}))
    second = Part("b", {"width": 3}, xr.Dataset({"v": (("y",), [1.0])}))
    with pytest.raises(ValueError, match="variable 'v' of run a has dims"):
        merge([first, second])


def test_a_dimension_that_follows_the_sweep_may_be_ragged_and_no_other() -> None:
    def run(width: int, members: int = 2, ragged: tuple[str, ...] = ("hidden",)) -> Part:
        W = np.arange(members * width).reshape(members, width) + 10.0 * width
        data = xr.Dataset({"W": (("member", "hidden"), W)})
        return Part(str(width), {"model.n_hidden": width}, data, ragged)

    found = merge([run(2), run(3)])
    assert found.missing == [] and dict(found.data.sizes) == {
        "n_hidden": 2,
        "member": 2,
        "hidden": 3,
    }
    assert np.isnan(found.data["W"].sel(n_hidden=2).isel(hidden=2)).all()
    np.testing.assert_allclose(found.data["W"].sel(n_hidden=3, member=1), [33, 34, 35])
    assert merge([run(2, ragged=()), run(3, ragged=())]).missing != []
    assert merge([run(2), run(3, members=1)]).missing == ["n_hidden=3, member=1"]


def test_a_variable_that_some_runs_do_not_have_is_named_and_not_missing() -> None:
    full = Part("a", {"width": 2}, xr.Dataset({"loss": ((), 1.0), "theory": (("x",), [1.0, 2.0])}))
    bare = Part("b", {"width": 3}, xr.Dataset({"loss": ((), 3.0)}))
    found = merge([full, bare])
    assert found.missing == [] and found.partial == ["theory"]
    assert np.isnan(found.data["theory"].sel(width=3)).all()
    np.testing.assert_allclose(found.data["loss"], [1.0, 3.0])


def test_what_an_inner_axis_leaves_alone_is_not_spread_over_jobs() -> None:
    inner = xr.Dataset(
        {"loss": (("density",), [1.0, 2.0]), "curve": (("x",), [5.0, 6.0])},
        {"density": [0.1, 0.7]},
    )
    job = xr.Dataset({"loss": ((), 3.0), "curve": (("x",), [5.0, 6.0])})
    found = merge([Part("a", {"density": [0.1, 0.7]}, inner), Part("b", {"density": 0.9}, job)])
    assert found.missing == [] and found.data["curve"].dims == ("x",)
    np.testing.assert_allclose(found.data["loss"], [1.0, 2.0, 3.0])
