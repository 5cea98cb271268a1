"""Two orthogonal samples: the phases, the saddle, and the interpolator of least norm."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import orthogonal_pair
from rankfall.dynamics import descent, every, exact_flow
from rankfall.loss import square
from rankfall.network import Network
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    at_least,
    at_most,
    finished,
    near,
    scientific,
    seed_lines,
)
from rankfall.theory import Situation, assessed
from rankfall.theory.results import boursier_orthogonal

SIGNS = (1, -1)
SLOW = 5**0.5 / 4  # the norm of D₋ on the data of the notebook; that of D₊ is twice as large


@dataclass(frozen=True)
class Setting:
    """The first example of the authors' notebook training_dynamics."""

    width: int = 60  # the notebook's
    scales: tuple[float, ...] = (1e-6, 1e-3)  # of the start: the notebook's, and a larger one
    until: float = 50.0  # ours: the end of the flow
    records: int = 101  # ours
    step: float = 1e-3  # the notebook's
    steps: int = 20_000  # the notebook's
    rtol: float = 1e-8  # ours: of the flow

    def __post_init__(self) -> None:
        """Refuse scales without a smallest and a largest one."""
        if not self.scales or list(self.scales) != sorted(set(self.scales)) or not 0 < self.smallest < 1:
            shown = ", ".join(map(scientific, self.scales)) or "there are none"
            raise ValueError(f"scales must rise, from between 0 and 1, such as 1e-6,1e-3: {shown}.")

    @property
    def smallest(self) -> float:
        """The scale of which most claims speak, and from which the phases take longest."""
        return self.scales[0]

    @property
    def fitted(self) -> float:
        """A time at which both samples are well on their way: about ln(1/λ)/‖D₋‖, and 5 more."""
        return 30.0 + float(np.log(1e-6 / self.smallest)) / SLOW

    @property
    def gap(self) -> int:
        """The steps between two records of the descent."""
        return max(1, self.steps // 100)


def _half_times(part: np.ndarray, times: np.ndarray) -> list[float]:
    """When each column of parts is one half. They grow like the logistic function, which is interpolated."""
    inner = np.clip(part, 1e-300, 1 - 1e-12)
    return [float(np.interp(0.0, np.log(column / (1 - column)), times)) for column in inner.T]


def _outputs(theta: np.ndarray, x: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W (time, m, d), a (time, m) and f (time, n) from the recorded weights."""
    w, a = theta[:, :-width].reshape(len(theta), width, -1), theta[:, -width:]
    return w, a, np.einsum("tm,tmn->tn", a, np.maximum(w @ x.T, 0))


def run_pair(setting: Setting, seed: int) -> xr.Dataset:
    """The flow from two scales, the descent of the authors' code, and what is predicted for them."""
    flows = [_pair_flow(setting, scale, seed) for scale in setting.scales]
    flow = xr.concat(flows, dim=xr.Variable("scale", list(setting.scales)))
    return flow.merge(_pair_descent(setting, seed))


def _pair(setting: Setting, scale: float, seed: int) -> Situation:
    # N(0, s^2/m) for the weight and the bias of a neuron, which is `balanced` with s sqrt(2)
    network = Network.balanced((2, setting.width, 1), slope=0.0, scale=np.sqrt(2) * scale, seed=seed)
    return Situation(network, orthogonal_pair(), square)


def _pair_flow(setting: Setting, scale: float, seed: int) -> xr.Dataset:
    s = _pair(setting, scale, seed)
    times, groups = np.linspace(0, setting.until, setting.records), boursier_orthogonal.both(s)
    asked = np.sort(np.append(times, groups[0].half / 2))
    run = finished(
        exact_flow(
            s.network,
            s.data,
            s.loss,
            setting.until,
            rtol=setting.rtol,
            measures=["weights"],
            record=list(asked),
            show=False,
        )
    )
    w, a, f = _outputs(run["weights"].values, s.x, setting.width)
    losses = ((f - s.y) ** 2).mean(axis=1) / 2
    half_way = int(np.searchsorted(asked, groups[0].half / 2))
    order = np.argsort(-s.y)  # the positive sample first, as the groups
    return xr.Dataset(
        {
            "loss": ("time", np.interp(times, asked, losses)),
            "predicted_loss": ("time", np.array([sum(g.loss(t) for g in groups) for t in times])),
            "half": ("sign", np.array(_half_times((f / s.y)[:, order], asked))),
            "predicted_half": ("sign", np.array([g.half for g in groups])),
            "rate": ("sign", np.array([g.rate for g in groups])),
            "rest": np.interp((groups[0].half + groups[1].half) / 2, asked, losses),
            "saddle": groups[1].step / 2 * groups[1].y @ groups[1].y,
            "last": losses[-1],
            "turned": _widest(w[half_way], groups),
            "grown": np.abs(f[half_way]).max(),
            "end_error": _end_error(w[-1], a[-1], groups),
            "norm": (w[-1] ** 2).sum() + (a[-1] ** 2).sum(),
            "least_norm": 2 * sum(g.strength for g in groups),
            "applies": float(assessed(boursier_orthogonal.RESULTS[0], s).status == "applies"),
        },
        {"time": times, "sign": list(SIGNS)},
    )


def _widest(w: np.ndarray, groups: tuple[boursier_orthogonal.Group, boursier_orthogonal.Group]) -> float:
    """The largest angle, in degrees, of a positive neuron that sees all its samples with D+."""
    group = groups[0]
    aim = group.y @ group.x
    rows = w[group.full]
    cosines = rows @ aim / np.linalg.norm(rows, axis=1) / np.linalg.norm(aim)
    return float(np.degrees(np.arccos(np.clip(cosines.min(), -1, 1))))


def _end_error(
    w: np.ndarray, a: np.ndarray, groups: tuple[boursier_orthogonal.Group, boursier_orthogonal.Group]
) -> float:
    """The distance of sum |a_j| w_j of either sign from w+ or w-, relative to their lengths."""
    sums = [np.abs(a[sign * a > 0]) @ w[sign * a > 0] for sign in SIGNS]
    return float(max(np.linalg.norm(v - g.end) / g.strength for v, g in zip(sums, groups, strict=True)))


def _pair_descent(setting: Setting, seed: int) -> xr.Dataset:
    s = _pair(setting, setting.smallest, seed)
    # The code's loss (1/n) sum (f - y)^2 is twice the paper's: its step is twice as long.
    run = descent(
        s.network,
        s.data,
        s.loss,
        2 * setting.step,
        setting.steps,
        measures=["weights"],
        record=every(setting.gap),
        show=False,
    )
    _, _, f = _outputs(finished(run)["weights"].values, s.x, setting.width)
    part = (f / s.y)[:, np.argsort(-s.y)]
    iterations = run.dataset["step"].values
    return xr.Dataset({"half_step": ("sign", np.array(_half_times(part, iterations)))}, {"sign": list(SIGNS)})


def _delay(setting: Setting, runs: xr.Dataset) -> xr.DataArray:
    """By how much the times grow from the last scale to the first, over ln(their ratio)/|D|."""
    late, soon = runs.half.isel(scale=0), runs.half.isel(scale=-1)
    return (late - soon) * runs.rate.isel(scale=0) / np.log(setting.scales[-1] / setting.scales[0])


def draw_pair(setting: Setting, runs: xr.Dataset) -> Figure:
    """The loss over time, measured and predicted; the times over the scale; the norm at the end."""
    with plot.style():
        figure, axes = plot.panels(2)
        left, right = axes[0]
        for i, scale in enumerate(setting.scales):
            here = runs.sel(scale=scale)
            seed_lines(left, runs.time, here.loss.transpose("time", "seed"), plot.PALETTE[i])
            name = rf"$\lambda = 10^{{{np.log10(scale):.0f}}}$"
            plot.simulation(left, runs.time, here.loss.isel(seed=0), name, color=plot.PALETTE[i])
            plot.theory(left, runs.time, here.predicted_loss.isel(seed=0), None if i else "predicted")
        left.set(xlabel="time $t$", ylabel="loss", title="(a) one sign after the other")
        left.legend()
        delays = -np.log(np.array(setting.scales))
        for i, sign in enumerate(SIGNS):
            of_sign = runs.sel(sign=sign)
            name = "positive sample" if sign > 0 else "negative sample"
            times = of_sign.half.transpose("scale", "seed")
            plot.simulation(right, delays, times, color=plot.PALETTE[i], alpha=0.5)
            plot.simulation(right, [], [], name, color=plot.PALETTE[i])
            ends = np.array([4.0, 16.0])
            slope = 1 / float(of_sign.rate.isel(seed=0, scale=0))
            middle = float(times.isel(scale=0).mean()) - slope * delays[0]
            plot.theory(right, ends, middle + slope * ends, None if i else r"slope $1/|D_\pm|$")
        right.set(xlabel=r"$\ln(1/\lambda)$", ylabel="time at which half is fitted", ylim=(0, 34))
        right.set_title("(b) the times of the phases")
        right.legend(loc="upper left")
    return figure


def _applies(setting: Setting) -> Check:
    """What Theorem 1 supposes, at the smallest scale."""
    return Check(
        f"the hypotheses of the theorem hold at λ = {scientific(setting.smallest)}: 1 yes, 0 no",
        lambda runs: runs.applies.isel(scale=0),
        at_least(1.0, "all of them"),
    )


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Theorem 1, and the authors' code; the ends of runs that are long enough for one."""
    found = (*_on_turning(setting), *_on_delays(setting), *_on_times(setting))
    if setting.until > setting.fitted:
        found += _on_the_end(setting)
    if 2 * setting.step * setting.steps >= setting.fitted:
        found += _on_the_code(setting)
    return found


def _on_turning(setting: Setting) -> tuple[Claim, ...]:
    """The first phase: neurons turn before they grow."""
    root = float(np.sqrt(setting.smallest))
    return (
        Claim(
            id="turning-first",
            sentence="The neurons turn to D₊ before any of them grows.",
            source="Theorem 1, first phase",
            metric="largest angle with D₊ of a positive neuron that sees x₊, at half the first time, degrees",
            measure=lambda runs: runs.turned.isel(scale=0),
            expected=at_most(
                1e3 * root, f"√λ is {np.degrees(root):.1g} degrees by then, and sums of starts can be small"
            ),
            hypotheses=(
                _applies(setting),
                Check("largest output then", lambda runs: runs.grown.isel(scale=0), at_most(1e-3, "small")),
            ),
        ),
    )


def _between_records(setting: Setting) -> str:
    return f"the records are {setting.until / max(1, setting.records - 1):g} apart"


def _on_delays(setting: Setting) -> tuple[Claim, ...]:
    """How the times of the phases grow, if there are several scales."""
    if len(setting.scales) < 2:
        return ()
    least, most = scientific(setting.smallest), scientific(setting.scales[-1])
    ratio = setting.scales[-1] / setting.smallest
    return (
        Claim(
            id="logarithmic-delays",
            sentence="The times of the phases grow like ln(1/λ)/‖D₊‖ and ln(1/λ)/‖D₋‖.",
            source="Theorem 1",
            metric=f"growth of the times from λ = {most} to {least}, divided by ln({ratio:g})/‖D±‖",
            measure=lambda runs: _delay(setting, runs),
            expected=near(1.0, 0.01, f"terms of the order λ, and {_between_records(setting)}"),
            form="{:.5f}",
            hypotheses=(_applies(setting),),
        ),
    )


def _on_times(setting: Setting) -> tuple[Claim, ...]:
    """When the phases come, and where the loss rests between them."""
    least, missed = scientific(setting.smallest), float(np.sqrt(setting.smallest))
    return (
        Claim(
            id="closed-form-times",
            sentence="The times themselves follow from the start, in closed form.",
            source="rankfall, after Theorem 1",
            metric=f"time at which half is fitted / the predicted one, both signs, λ = {least}",
            measure=lambda runs: (runs.half / runs.predicted_half).isel(scale=0),
            expected=near(1.0, 1e-3, f"{_between_records(setting)}, and interpolated"),
            form="{:.6f}",
            hypotheses=(_applies(setting),),
        ),
        Claim(
            id="rest-at-saddle",
            sentence="Between the phases the loss rests at a saddle, with the positive sample fitted.",
            source="Theorem 1",
            metric="loss half way between the two times / Σ y²/2n over the negative samples",
            measure=lambda runs: (runs.rest / runs.saddle).isel(scale=0),
            expected=near(
                1.0,
                10 * missed,
                f"what either phase still misses there is of the order √λ, {100 * missed:.2g} %",
            ),
            form="{:.5f}",
            hypotheses=(_applies(setting),),
        ),
    )


def _on_the_end(setting: Setting) -> tuple[Claim, ...]:
    """Where the flow ends."""
    least, late = scientific(setting.smallest), setting.until - setting.fitted
    return (
        Claim(
            id="pair-zero-loss",
            sentence="The loss goes to zero.",
            source="Theorem 1",
            metric=f"loss at t = {setting.until:g}",
            measure=lambda runs: runs["last"],
            expected=at_most(
                10.0 ** (-late / 2),
                f"it falls by 10^-0.5 or more in a unit of time, from t = {setting.fitted:.0f} on",
            ),
        ),
        Claim(
            id="end-in-closed-form",
            sentence="The end is f(x) = σ(w₊·x) - σ(w₋·x) with w± = Σ (|y|/‖x‖²) x over each sign.",
            source="Theorem 1",
            metric=f"distance of Σ |aⱼ| wⱼ of a sign from w±, relative to its length; λ = {least}",
            measure=lambda runs: runs.end_error.isel(scale=0),
            expected=at_most(
                10 * setting.smallest,
                f"what weights have across the samples stays: of the order λ = {least}",
            ),
            form="{:.2g}",
            hypotheses=(_applies(setting),),
        ),
        Claim(
            id="least-norm",
            sentence="Among all interpolators this one has the least norm, ‖θ‖² = 2(‖w₊‖ + ‖w₋‖).",
            source="Theorem 1",
            metric="‖θ‖² at the end / 2(‖w₊‖ + ‖w₋‖)",
            measure=lambda runs: (runs.norm / runs.least_norm).isel(scale=0),
            expected=near(
                1.0,
                max(10 * setting.smallest**2, 100 * setting.rtol),
                f"the start, λ = {least}, squared, and the flow's tolerance {scientific(setting.rtol)}",
            ),
            form="{:.9f}",
            hypotheses=(_applies(setting),),
        ),
    )


def _on_the_code(setting: Setting) -> tuple[Claim, ...]:
    """What the authors' code does."""
    step = scientific(setting.step)
    return (
        Claim(
            id="authors-code",
            sentence=f"The authors' code does the same in half the time, by its steps of {step}.",
            source="notebook training_dynamics",
            metric=f"step at which half is fitted × 2 × {step} / predicted time, both signs",
            measure=lambda runs: runs.half_step * 2 * setting.step / runs.predicted_half.isel(scale=0),
            expected=near(
                1.0,
                5 * setting.step,
                f"steps of {scientific(2 * setting.step)} lag by ‖D‖ · {step} of the time; "
                f"the records are {setting.gap} apart",
            ),
            form="{:.5f}",
            hypotheses=(_applies(setting),),
        ),
    )


PAIR = Experiment(
    name="pair",
    title="Two orthogonal samples and sixty neurons: one sign after the other",
    setting=Setting(),
    simulation=run_pair,
    picture=draw_pair,
    statements=claims,
    seeds=20,
    cost=1.2,
    about=(
        "The notebook's first example: x = -0.5 with y = -1 and x = 2 with y = 1, and a bias, which makes "
        "the inputs (-0.5, 1) and (2, 1) orthogonal; 60 neurons, a balanced start of size λ = 1e-6, and 1e-3 "
        "beside it. The flow is that of the paper's loss Σ (f - y)²/2n. The code has Σ (f - y)²/n, which "
        "runs twice as fast: 20,000 steps of 1e-3 are the time 40. Both are run."
    ),
)
