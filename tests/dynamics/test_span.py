import numpy as np
import pytest

from rankfall import Data, Network, descent, every, flow
from rankfall.dynamics._span import inside_basis, span_of, spans_of

RNG = np.random.default_rng(0)
MEASURES = ["loss", "stable_rank", "norms", "singular_values", "test_accuracy"]


def data(dim):
    """Five samples in `dim` dimensions, with a test part that leaves their span."""
    x, y = RNG.normal(size=(5, dim)), np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    return Data(x, y, test=Data(RNG.normal(size=(8, dim)), np.array([1.0, -1.0] * 4)))


# 5 samples and 4 neurons: 9 directions at most, which is less than 12 dimensions and more than 7.
WIDE, NARROW = data(12), data(7)


def network(dim, slope=0.2):
    drawn = Network.gaussian((dim, 4, 1), slope, 2.0, 0, bias=True)
    return Network(drawn.weights, [RNG.normal(size=4), RNG.normal(size=1)], slope)


def assert_same_run(reduced, full, measures, rtol=1e-12):
    assert reduced.settings["span"]
    assert not full.settings["span"]
    for name in measures:
        np.testing.assert_allclose(reduced[name], full[name], rtol=rtol)
    for mine, other in (
        (reduced.network.weights, full.network.weights),
        (reduced.network.biases, full.network.biases),
    ):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=rtol * np.abs(b).max())


@pytest.mark.parametrize(
    ("data", "sgd"), [(WIDE, {}), (NARROW, {"batch": 2, "seed": 3})], ids=["full batches", "SGD"]
)
def test_descent_in_the_span_of_the_data_is_the_full_descent(data, sgd):
    start = network(data.dim)
    options = {"measures": MEASURES, "record": every(20), **sgd}
    reduced = descent(start, data, "logistic", 0.1, 100, **options)
    full = descent(start, data, "logistic", 0.1, 100, **options, span=False)
    assert np.abs(full.network.weights[0] - start.weights[0]).max() > 0.1
    assert_same_run(reduced, full, MEASURES)


def test_the_basis_of_single_precision_data_is_as_good_as_the_weights_are():
    single = Data(WIDE.x.astype(np.float32), WIDE.y)
    start = network(12)
    call = {"step": 0.1, "steps": 40, "measures": ["loss", "stable_rank"], "show": False}
    reduced, full = (descent(start, single, "logistic", span=span, **call) for span in (True, False))
    assert_same_run(reduced, full, ["loss", "stable_rank"])


def test_flow_in_the_span_of_the_data_is_the_full_flow():
    # Rounding enters the choice of the steps: the two differ by a part of the tolerance, more of it at kinks.
    start, measures = network(12, slope=1.0), ["loss", "norms", "test_accuracy"]
    options = {"measures": measures, "record": [0.5], "rtol": 1e-11}
    reduced = flow(start, WIDE, "logistic", 1.0, **options)
    full = flow(start, WIDE, "logistic", 1.0, **options, span=False)
    assert np.abs(full.network.weights[0] - start.weights[0]).max() > 0.1
    assert_same_run(reduced, full, measures)


def test_one_draw_at_several_scales_has_one_span_and_the_runs_of_spans_of_their_own():
    draw = network(12)
    scaled = [Network([c * draw.weights[0], draw.weights[1]], draw.biases, 0.2) for c in (1.0, 0.1, -3e-5)]
    spans = spans_of(inside_basis(WIDE.x), [n.weights[0] for n in (*scaled, network(12, 0.5))])
    assert spans[0] is spans[1] is spans[2]
    together = descent(scaled, WIDE, "logistic", 0.1, 60, measures=MEASURES, record=[30])
    for i, each in enumerate(scaled):
        alone = descent(each, WIDE, "logistic", 0.1, 60, measures=MEASURES, record=[30], span=False)
        for name in MEASURES:
            np.testing.assert_allclose(together[name][:, i], alone[name], rtol=1e-11)
    rng = np.random.default_rng(0)
    others = [rng.normal(size=(4, 12)), rng.normal(size=(3, 12)), np.zeros((4, 12))]
    found = spans_of(inside_basis(WIDE.x), others)
    assert found[0] is not found[1]
    assert found[2] is found[0]  # nought times it


def test_networks_that_run_together_each_bring_their_own_basis():
    starts = [network(12) for _ in range(2)]
    options = {"measures": MEASURES, "record": every(20)}
    together = descent(starts, WIDE, "logistic", 0.1, 100, **options)
    assert together.settings["span"]
    for i, start in enumerate(starts):
        alone = descent(start, WIDE, "logistic", 0.1, 100, **options, span=False)
        for name in MEASURES:
            np.testing.assert_allclose(together[name][:, i], alone[name], rtol=1e-12)
        np.testing.assert_allclose(together.networks[i].weights[0], alone.network.weights[0], atol=1e-12)


def test_what_the_data_do_not_see_does_not_move():
    start = network(12)
    run = descent(start, WIDE, "logistic", 0.1, 100, measures=MEASURES, record=every(20))
    outside = np.linalg.qr(WIDE.x.T, mode="complete")[0][:, 5:]
    moved = run.network.weights[0] - start.weights[0]
    assert np.abs(moved @ outside).max() < 1e-14


def test_a_fixed_first_layer_stays_as_it_is_bit_for_bit():
    start = Network(network(12).weights, slope=0.2, trained=(False, True))
    run = descent(start, WIDE, "logistic", 0.1, 3, measures=["loss"])
    assert run.settings["span"]
    assert run.network.weights[0].tobytes() == start.weights[0].tobytes()
    assert np.abs(run.network.weights[1] - start.weights[1]).max() > 1e-3


@pytest.mark.parametrize(("dim", "width"), [(12, 4), (7, 4), (9, 4), (12, 30)])
def test_the_basis_is_orthonormal_and_holds_the_data_and_the_weights(dim, width):
    x, first = RNG.normal(size=(5, dim)), RNG.normal(size=(width, dim))
    span = span_of(inside_basis(x), first)
    basis = np.hstack([span.inside, span.outside])
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-14)
    assert span.k == 5
    for rows in (x, first):
        np.testing.assert_allclose(span.coordinates(rows) @ basis.T, rows, atol=1e-13)
    np.testing.assert_allclose(span.coordinates(x)[:, span.k :], 0.0, atol=1e-13)


def test_repeated_samples_do_no_harm():
    x = np.vstack([RNG.normal(size=(2, 6))] * 2)
    span = span_of(inside_basis(x), RNG.normal(size=(3, 6)))
    np.testing.assert_allclose(span.inside.T @ span.inside, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(span.coordinates(x)[:, :4] @ span.inside.T, x, atol=1e-13)


def test_lifting_adds_the_move_to_the_start():
    x, first = RNG.normal(size=(5, 12)), RNG.normal(size=(4, 12))
    span = span_of(inside_basis(x), first)
    move = RNG.normal(size=(4, 5))
    lifted = span.lift(first, first @ span.inside + move)
    np.testing.assert_allclose(lifted, first + move @ span.inside.T, atol=1e-14)
