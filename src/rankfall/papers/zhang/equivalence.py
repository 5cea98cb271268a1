"""Theorem 5 and Corollary 6: a bias-free network on symmetric data is a linear one, and ends like one."""

from functools import cache

import numpy as np
import optax
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, beta, hard_margin, symmetric_sine, symmetrise
from rankfall.dynamics import descent, every, exact_flow
from rankfall.dynamics.stepper import Optimiser
from rankfall.limits import limit
from rankfall.network import Network
from rankfall.papers.claim import Check, Claim, at_least, at_most, with_certificates
from rankfall.papers.experiment import Experiment, finished
from rankfall.theory.linear_equivalence import weight_error
from rankfall.theory.white_course import time_course

# --- Theorem 5, in discrete steps -------------------------------------------------------------------------

PAIRS, DIM, WIDTH = 50, 10, 40
SLOPES = (0.0, 0.3, 0.7)
SHARES = (0.5, 0.6, 0.8)
STEP, STEPS = 0.2, 400
ROUNDING = 1e-12  # of some hundred steps in float64


def run_steps(seed: int) -> xr.Dataset:
    """Weight errors of rank-one starts: three slopes with either loss, and three balances of the halves."""
    data, labels = _data(seed), labelled(seed)
    networks = [Network.rank_one((DIM, WIDTH, 1), slope, 0.3, seed) for slope in SLOPES]
    errors = [weight_errors(networks, data, "square"), weight_errors(networks, labels, "logistic")]
    uneven = weight_errors([unequal(share, seed) for share in SHARES], data, "square")
    step = np.arange(0, STEPS + 1, 10)
    return xr.Dataset(
        {
            "error": (("loss", "step", "slope"), np.array(errors)),
            "uneven": (("step", "share"), uneven),
            "foreseen": (("share",), [weight_error(share) for share in SHARES]),
        },
        {"loss": ["square", "logistic"], "slope": list(SLOPES), "share": list(SHARES), "step": step},
    )


def _data(seed: int) -> Data:
    return symmetric_sine(pairs=PAIRS, dim=DIM, seed=seed)


def labelled(seed: int) -> Data:
    """The signs of the same targets: symmetric, and not separable."""
    data = _data(seed)
    return Data(data.x, np.where(data.y > 0, 1.0, -1.0), "signs of the sine")


def unequal(share: float, seed: int) -> Network:
    """ReLU weights of rank one whose positive half has this share of the squared norm of W2."""
    first, second = Network.rank_one((DIM, WIDTH, 1), 0.0, 0.3, seed).weights
    scale = np.sqrt(2 * np.where(second[0] > 0, share, 1 - share))
    return Network([scale[:, None] * first, scale * second], slope=0.0)


def weight_errors(networks: list[Network], data: Data, loss: str, penalty: float = 0.0) -> np.ndarray:
    """How far √c W is from the linear twin's weights, relative to these, at every tenth step (t, network).

    A step η of a network is a step c η of its twin, and a penalty λ is λ/c.
    """
    here = _descend(networks, data, loss, [STEP] * len(networks), penalised(penalty))
    twins = []
    for network in networks:
        c = float(network.mean_slope)
        twins += [_descend([network.linear_twin()], data, loss, [c * STEP], penalised(penalty / c))]
    there = np.concatenate(twins, axis=1)
    roots = np.sqrt([float(network.mean_slope) for network in networks])[:, None]
    return np.asarray(np.linalg.norm(roots * here - there, axis=2) / np.linalg.norm(there, axis=2))


def _descend(
    networks: list[Network], data: Data, loss: str, steps: list[float], optimiser: Optimiser
) -> np.ndarray:
    """The weights of both layers (t, network, weight)."""
    run = descent(
        networks,
        data,
        loss,
        steps,
        STEPS,
        optimiser=optimiser,
        measures=["weights"],
        record=every(10),
        show=False,
    )
    return np.asarray(finished(run)["weights"].values)


@cache  # one function for each penalty, so that JAX compiles it once
def penalised(penalty: float) -> Optimiser:
    """Gradient descent on the loss plus half the penalty times the squared norm of the weights."""
    if not penalty:
        return optax.sgd
    return lambda size: optax.chain(optax.add_decayed_weights(penalty), optax.sgd(size))


def draw_steps(runs: xr.Dataset) -> Figure:
    """The errors over the steps: at rounding for equal halves, and towards their closed form for others."""
    with plot.style():
        figure, axes = plot.panels(3)
        for ax, loss, letter in zip(axes[0], ("square", "logistic"), "ab", strict=False):
            draw_errors(ax, runs, runs.error.sel(loss=loss))
            ax.set_title(f"({letter}) {loss} loss, rank one, equal halves")
        axes[0, 0].legend(title=r"slope $\alpha$", loc="upper right", ncols=3)
        for share, colour in zip(SHARES[1:], plot.PALETTE, strict=False):
            curves = 100 * runs.uneven.sel(share=share).transpose("step", "seed")
            axes[0, 2].plot(runs.step, curves, color=colour, linewidth=0.7)
            axes[0, 2].plot([], [], color=colour, label=f"$p = {share:g}$")
            end = 100 * float(runs.foreseen.sel(share=share).max())
            plot.theory(axes[0, 2], [0, STEPS], [end, end], "closed form" if share == 0.8 else None)
        axes[0, 2].legend(loc="center right", bbox_to_anchor=(1.0, 0.6))
        axes[0, 2].set(xlabel="step", ylabel="weight error (%)", title="(c) ReLU, unequal halves")
    return figure


def draw_errors(ax: Axes, runs: xr.Dataset, errors: xr.DataArray) -> None:
    """A line for each slope and seed."""
    for slope, colour in zip(runs.slope.values, plot.colours(runs.sizes["slope"]), strict=True):
        curves = errors.sel(slope=slope).transpose("step", "seed")
        ax.semilogy(runs.step[1:], np.maximum(curves[1:], 1e-17), color=colour, linewidth=0.6)
        ax.plot([], [], color=colour, label=f"{slope:g}")
    ax.set(xlabel="step", ylabel="weight error", ylim=(1e-17, 1e-11))


THEOREM_5 = Experiment(
    name="theorem-5",
    title="From weights of rank one the equivalence with a linear network is exact, step by step",
    run=run_steps,
    draw=draw_steps,
    seeds=20,
    cost=0.3,
    about=(
        "100 mirrored points in 10 dimensions, 40 neurons, W₁ = W₂ᵀrᵀ of norm 0.3 with a random r, "
        "α = 0, 0.3 and 0.7. The theorem speaks of the flow; here are 400 steps of descent, of size 0.2 for "
        "the network and 0.2c for the linear one, c = (1+α)/2. The labels of the logistic loss are signs of "
        "the same targets, which no linear map separates."
    ),
    claims=(
        Claim(
            sentence="Square loss: the weights are the linear network's over √c, on a slower clock.",
            source="workshop, Theorem 5; TMLR, Theorem 8",
            metric="largest relative weight error over the steps, for each slope",
            measure=lambda runs: runs.error.sel(loss="square").max("step").transpose("seed", "slope"),
            expected=at_most(ROUNDING, "exact but for rounding"),
        ),
        Claim(
            sentence="Logistic loss: the weights are the linear network's over √c, on a slower clock.",
            source="workshop, Theorem 5; TMLR, Theorem 8",
            metric="largest relative weight error over the steps, for each slope",
            measure=lambda runs: runs.error.sel(loss="logistic").max("step").transpose("seed", "slope"),
            expected=at_most(ROUNDING, "exact but for rounding"),
            note="The workshop version prints the logistic loss with slips: docs/errata.md, E1 and E2.",
        ),
        Claim(
            sentence="The halves of W₂ must have equal norms: else the weight error ends at its closed form.",
            source="rankfall; hypothesis of Theorem 5",
            metric="|error at the end − [(√p − √½)² + (√(1−p) − √½)²]^½| for p = 0.6 and 0.8",
            measure=lambda runs: np.abs(runs.uneven.isel(step=-1) - runs.foreseen).transpose("seed", "share")[
                :, 1:
            ],
            expected=at_most(1e-3, "what 400 steps leave of the even part"),
            form="{:.1e}",
        ),
    ),
)

# --- Corollary 6: where it ends ---------------------------------------------------------------------------

POINTS, PLANE = 9, 3  # points drawn before mirroring, and their dimension
END = "limit"  # its certificate


def run_ends(seed: int) -> xr.Dataset:
    """The limits of both losses, and the start that goes nowhere."""
    sine = symmetric_sine(pairs=POINTS, dim=PLANE, seed=seed)
    starts = [
        Network.rank_one((PLANE, 6, 1), 0.0, 0.3, seed),
        Network.gaussian((PLANE, 20, 1), 0.0, 1e-3, seed),
    ]
    best = np.linalg.lstsq(sine.x, sine.y, rcond=None)[0]
    squares = [limit(start, sine, "square", optimality=False, show=False) for start in starts]
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(POINTS, PLANE)), rng.normal(size=PLANE)
    separable = symmetrise(Data(x, np.where(x @ w > 0, 1.0, -1.0), "separable"))
    svm = hard_margin(separable)
    if svm is None or svm.w is None:
        raise ValueError("labels by a linear map are separable")
    end = limit(starts[0], separable, "logistic", optimality=False, show=False)
    found = end.network.split()[0][0]
    runs = xr.Dataset(
        {
            "outputs": (("start", "sample"), [np.asarray(e.network(sine.x)) for e in squares]),
            "linear": (("sample",), sine.x @ best),
            "certified": (("start",), [float(e.reached) for e in squares]),
            "classifier": (("axis",), found),
            "svm": (("axis",), svm.w),
            "svm_certified": float(end.reached),
            **_opposite(seed),
        },
        {"start": ["rank one", "gaussian"]},
    )
    return with_certificates(runs, seed, {END: end})


def _opposite(seed: int) -> dict[str, object]:
    """ReLU on white data from weights of rank one along -beta: the flow, and eq. (38)."""
    data = symmetric_sine(pairs=POINTS, dim=PLANE, seed=seed, white=True)
    b = beta(data)
    s = float(np.linalg.norm(b))
    start = Network.rank_one((PLANE, 6, 1), 0.0, 0.3, seed, direction=-b)
    times = np.linspace(0.0, 16.0, 17) / s
    run = exact_flow(start, data, "square", times[-1], record=times, measures=["outputs"], show=False)
    outputs = finished(run)["outputs"].values
    u0 = np.sqrt(0.5) * float(np.linalg.norm(start.weights[0]))
    exact = time_course(times, b, -b / s, u0, 0.0) @ data.x.T
    size = np.linalg.norm(data.x @ b)
    return {
        "opposite": (("time",), np.linalg.norm(outputs, axis=1) / size),
        "opposite_exact": (("time",), np.linalg.norm(exact, axis=1) / size),
        "opposite_missing": float(np.linalg.norm(outputs[-1] - data.x @ b) / size),
    }


def _certified(start: str) -> Check:
    return Check(
        "limits that were reached",
        lambda runs: runs.certified.sel(start=start),
        at_least(1.0, "the flow was followed to its end"),
    )


def _missed(runs: xr.Dataset, start: str) -> np.ndarray:
    apart = np.abs(runs.outputs.sel(start=start) - runs.linear).max("sample")
    return np.asarray(apart / np.abs(runs.linear).max("sample"))


def _length(vectors: xr.DataArray) -> xr.DataArray:
    return (vectors**2).sum("axis") ** 0.5


def draw_ends(runs: xr.Dataset) -> Figure:
    """Ends against least squares and the SVM, and the start that decays."""
    with plot.style():
        figure, ((square, svm, opposite),) = plot.panels(3)
        for ax, expected, found in (
            (square, runs.linear, runs.outputs.sel(start="rank one")),
            (svm, runs.svm, runs.classifier),
        ):
            most = 1.1 * float(np.abs(expected).max())
            plot.theory(ax, [-most, most], [-most, most])
            plot.simulation(
                ax, expected.values.ravel(), found.values.ravel(), markevery=1, color=plot.PALETTE[0]
            )
        square.set(xlabel=r"least squares, $w^* \cdot x$", ylabel="end of the flow, $f(x)$")
        square.set_title("(a) square loss, all draws")
        svm.set(
            xlabel="hard-margin SVM, entries of $w$",
            ylabel="network at the margin 1",
            xscale="symlog",
            yscale="symlog",
        )
        svm.set_title("(b) logistic loss, all draws")
        clock = np.linspace(0.0, 8.0, runs.sizes["time"])
        for i in range(min(5, runs.sizes["seed"])):
            first = i == 0
            simulated, exact = runs.opposite[i], runs.opposite_exact[i]
            plot.simulation(opposite, clock, simulated, "flow" if first else None, color=plot.PALETTE[1])
            plot.theory(opposite, clock, exact, "eq. (38)" if first else None)
        opposite.set(xlabel=r"$\|\beta\|\,t/(2\tau)$", ylabel=r"$\|f\| / \|\beta^\top x\|$", yscale="log")
        opposite.set_title(r"(c) white data, start along $-\beta$")
        opposite.legend(loc="lower left")
    return figure


COROLLARY_6 = Experiment(
    name="corollary-6",
    title="The ends of training: linear least squares, and the hard-margin SVM",
    run=run_ends,
    draw=draw_ends,
    seeds=20,
    cost=1.8,
    about=(
        "Nine points and their mirror images in three dimensions; ReLU. Square loss: the sine targets of "
        "Fig. 3, 6 neurons of rank one and norm 0.3, and 20 Gaussian neurons of norm 0.001. Logistic loss: "
        "labels by a random linear map. The ends are limits of the flow. The corollary excludes no "
        "start: white data from r = −β/‖β‖ are run too."
    ),
    claims=(
        Claim(
            sentence="With the square loss the network ends at the least-squares linear map.",
            source="workshop, Corollary 6; TMLR, Corollary 10",
            metric="largest |f(x) − w*·x| / largest |w*·x|, from weights of rank one in a random direction",
            measure=lambda runs: _missed(runs, "rank one"),
            expected=at_most(1e-8, "the residual that a certificate allows, 1e-10, and a margin of 100"),
            hypotheses=(_certified("rank one"),),
        ),
        Claim(
            sentence="With the logistic loss and separable labels it ends in the direction of the SVM.",
            source="workshop, Corollary 6; TMLR, Corollary 10",
            metric="‖linear map at the margin 1 − hard-margin SVM‖ / ‖SVM‖",
            measure=lambda runs: _length(runs.classifier - runs.svm) / _length(runs.svm),
            expected=at_most(1e-8, "the residual that a certificate allows, 1e-10, and a margin of 100"),
            hypotheses=(
                Check(
                    "limits that were reached",
                    lambda runs: runs.svm_certified,
                    at_least(1.0, "the flow was followed to its end"),
                ),
            ),
            proofs=(END,),
        ),
        Claim(
            sentence="One start of rank one learns nothing: that opposite to β decays to zero.",
            source="rankfall, on Corollary 6",
            metric="‖f − w*·x‖ / ‖w*·x‖ at ‖β‖t = 16, white data, from r = −β/‖β‖",
            measure=lambda runs: runs.opposite_missing,
            expected=at_least(0.99, "from other starts of this size half is learned at ‖β‖t ≈ 3"),
            hypotheses=(
                Check(
                    "largest |‖f‖ of the flow − ‖f‖ of eq. (38)| / ‖w*·x‖ over time",
                    lambda runs: np.abs(runs.opposite - runs.opposite_exact).max("time"),
                    at_most(1e-6, "the exact solution decays like e^{−‖β‖t}; the tolerance of the flow"),
                ),
            ),
            note="Such starts are a null set: the corollary holds from almost every start.",
        ),
        Claim(
            sentence="From small Gaussian weights, too, the square loss ends at least squares.",
            source="rankfall; TMLR, Fig. 3a",
            metric="largest |f(x) − w*·x| / largest |w*·x|",
            measure=lambda runs: _missed(runs, "gaussian"),
            expected=at_most(1e-2, "weights of the order 0.001 are left beside those that grow"),
        ),
    ),
)

EXPERIMENTS = (THEOREM_5, COROLLARY_6)
