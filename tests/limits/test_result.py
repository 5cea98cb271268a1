from dataclasses import asdict

import numpy as np
import pytest

from rankfall import Data, Limit, Network, Trajectory, exact_flow, limit
from rankfall import data as rd
from rankfall.limits import Verdict

PAIR = rd.orthogonal_pair()
LEAKY = Network.fixed_second_layer((2, 4, 1), 0.1, 0.1, 0)
VARDI = Network([[[0.0, 1.0, 0.0], [0.0, -0.5, 0.0], [0.0, 0.0, 1.0]], [[1.0, 0.5, -1.0]]], slope=0.0)
VARDIS_DATA = Data([[1.0, 0.25, 0.0], [-1.0, 0.25, 0.0], [0.0, 0.0, 1.0]], [1.0, 1.0, -1.0])


def made(w, a, biases=None, trained=(True, False), margins=(1.0, 2.0)):
    """A limit with this network, and nothing else in it."""
    return Limit(
        verdict=Verdict.CERTIFIED,
        missing=(),
        network=Network([w, [a]], biases, slope=0.1, trained=trained),
        multipliers=np.array([2.0, 0.0]),
        margins=np.array(margins),
        residuals={},
        region=None,
        kinks=(),
        optimality=None,
        comparison=None,
        settings={},
    )


# What is measured


@pytest.mark.parametrize("shape", [(4, 3), (3, 5), (1, 4), (6, 1)])
def test_ranks_are_those_of_the_singular_values(shape):
    w = np.random.default_rng(sum(shape)).normal(size=shape)
    found = made(w, np.ones(shape[0]))
    values = np.linalg.svd(w, compute_uv=False)
    np.testing.assert_allclose(found.singular_values, values, rtol=1e-12)
    assert found.stable_rank == pytest.approx((values**2).sum() / values[0] ** 2, rel=1e-12)
    assert found.rank == min(shape)


def test_blocks_are_the_rows_of_one_sign():
    w = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, 0.0]])
    found = made(w, [1.0, -1.0, 2.0, 0.0])
    np.testing.assert_array_equal(found.blocks["+"], w[[0, 2]])
    np.testing.assert_array_equal(found.blocks["-"], w[[1]])
    assert found.block_ranks == {"+": 1, "-": 1}
    assert found.block_stable_ranks == {"+": pytest.approx(1), "-": pytest.approx(1)}
    assert found.rank == 2
    assert made(w[[0, 2]], [1.0, 1.0]).block_stable_ranks["-"] == 0  # there is none


def test_a_rank_counts_singular_values_above_1e_6_of_the_largest():
    assert made(np.diag([1.0, 1e-5, 1e-7]), np.ones(3)).rank == 2
    assert made(np.zeros((2, 2)), np.ones(2)).rank == 0
    assert made(np.zeros((2, 2)), np.ones(2)).stable_rank == 0


def test_the_norm_is_that_of_everything_trained_and_margins_are_normalised_by_its_power():
    w, a = np.array([[3.0, 0.0], [0.0, 4.0]]), [1.0, -2.0]
    assert made(w, a).norm == pytest.approx(5)
    assert made(w, a).normalised_margin == pytest.approx(1 / 5)
    both = made(w, a, trained=(True, True))
    assert both.norm == pytest.approx(np.sqrt(30))
    assert both.normalised_margin == pytest.approx(1 / 30)
    assert made(w, a, biases=[np.array([0.0, 12.0]), None]).norm == pytest.approx(13)
    assert np.isnan(made(w, a, biases=[None, np.ones(1)], trained=(True, True)).normalised_margin)


def test_support_vectors_are_the_samples_with_a_multiplier():
    np.testing.assert_array_equal(made(np.eye(2), [1.0, -1.0]).support, [0])


def test_what_is_printed_starts_with_the_verdict_and_names_every_residual():
    found = limit(LEAKY, PAIR, show=False)
    lines = str(found).splitlines()
    assert lines[0] == "Limit: certified."
    assert repr(found) == str(found)
    for name in (*found.residuals, "stable rank", "support", "global optimum", "linear SVM", "found by"):
        assert any(line.strip().startswith(name) for line in lines)
    spent = limit(Network.gaussian((2, 4, 1), 0.1, 1e-3, 0), PAIR, budget=2, show=False)
    assert str(spent).splitlines()[0] == f"Limit: {spent.verdict}: {'; '.join(spent.missing)}."


def test_the_limit_of_a_linear_model_can_be_printed():
    found = limit(Network([[[0.1, 0.2]]]), PAIR, budget=50, show=False)
    assert str(found).startswith("Limit: not decided: a late state")


def test_more_settings_leave_the_rest_as_it_was():
    found = limit(LEAKY, PAIR, show=False)
    more = found.with_settings(seed=7)
    assert more.settings == {**found.settings, "seed": 7}
    assert "seed" not in found.settings
    assert more.network is found.network


# Files


def limits():
    return {
        "fixed": limit(LEAKY, PAIR, show=False),
        "both, not optimal": limit(VARDI, VARDIS_DATA, show=False),
        "kinks and biases": limit(
            Network.fixed_second_layer((4, 8, 1), 0.0, 0.3, 3, bias=True),
            Data(np.random.default_rng(8).normal(size=(5, 4)), [1.0, -1.0, 1.0, -1.0, 1.0]),
            show=False,
        ),
        "end point": limit(LEAKY, PAIR, "square", show=False),
        "not separated": limit(Network.fixed_second_layer((2, 4, 1), 1.0, 0.1, 1), rd.xor(), show=False),
        "budget": limit(Network.gaussian((2, 4, 1), 0.1, 1e-3, 0), PAIR, budget=2, show=False),
        "approximate": limit(Network.gaussian((2, 3, 3, 1), 0.5, 3.0, 1), PAIR, budget=100, show=False),
    }


def assert_same(found, expected):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_same(found[key], expected[key])
    elif expected is None or isinstance(expected, str):
        assert found == expected
    else:
        np.testing.assert_array_equal(found, expected)


def test_a_limit_is_the_same_after_it_was_written_and_read(tmp_path):
    made_so_far = limits()
    for name, found in made_so_far.items():
        path = found.to_netcdf(tmp_path / f"{name}.nc")
        again = Limit.load(path)
        assert (again.verdict, again.missing, again.kinks) == (found.verdict, found.missing, found.kinks), (
            name
        )
        for part in ("multipliers", "margins", "region"):
            assert_same(getattr(again, part), getattr(found, part))
        assert_same(again.residuals, found.residuals)
        assert_same(again.settings, found.settings)
        for part in ("optimality", "comparison"):
            expected = getattr(found, part)
            assert type(getattr(again, part)) is type(expected), name
            if expected is not None:
                assert_same(asdict(getattr(again, part)), asdict(expected))
        for found_array, array in zip(again.network.weights, found.network.weights, strict=True):
            np.testing.assert_array_equal(found_array, array)
        for found_array, array in zip(again.network.biases, found.network.biases, strict=True):
            assert_same(found_array, array)
        assert repr(again.network) == repr(found.network)
        assert again.network.trained == found.network.trained
        assert str(again) == str(found)
    assert len(list(tmp_path.iterdir())) == len(made_so_far)  # no drafts are left


def test_a_file_that_is_no_limit_is_answered_with_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        Limit.load(tmp_path / "nothing.nc")
    garbage = tmp_path / "garbage.nc"
    garbage.write_bytes(b"not a file of numbers" * 100)
    with pytest.raises(ValueError, match="not a netCDF file"):
        Limit.load(garbage)
    run = exact_flow(LEAKY, PAIR, "exponential", 1.0, record=[1.0], show=False)
    with pytest.raises(ValueError, match="not a limit that rankfall wrote"):
        Limit.load(run.to_netcdf(tmp_path / "run.nc"))
    with pytest.raises(ValueError, match="not one that a rankfall run wrote"):
        Trajectory.load(limit(LEAKY, PAIR, show=False).to_netcdf(tmp_path / "limit.nc"))
