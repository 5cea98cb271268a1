"""How near real data are to what the theorems ask of them: measure it, and fill in docs/nearness.md.

`python docs/nearness.py` measures all problems below, whose data must be in the cache of `rankfall data`;
with names, like `python docs/nearness.py gordon "mnist 0/1"`, only these, and with `page` none. The numbers
are kept in docs/assets/nearness.json, from which the tables between the marks of the page are written.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rankfall as rf
from rankfall import data as rd
from rankfall.data import Data

DOCS = Path(__file__).parent
PAGE, NUMBERS = DOCS / "nearness.md", DOCS / "assets" / "nearness.json"
DRAWS, MOST = 200, 40  # random subsets: how many draws, and of how many samples at the most
ENOUGH = 3.0  # p(X) >= 3 slope^-3 (Frei et al.), at the slope 1
ASSESSED = 200  # samples of the image sets on which all results are asked; the other sets are taken whole
Preparation = Callable[[Data], Data]


def _same(data: Data) -> Data:
    return data


def _pixels(mean: float, std: float) -> Preparation:
    return lambda data: Data((data.x - np.float32(mean)) / np.float32(std), data.y, data.name)


def _labelled_by_a_line() -> Data:
    return rd.linear_teacher(100, 20, classification=True)


@dataclass(frozen=True)
class Problem:
    """Two classes of a set, and how the papers prepare them; `exact` if its margin can be had exactly."""

    name: str
    load: Callable[[], Data]
    classes: tuple[int, int]
    prepared: dict[str, Preparation]
    exact: bool = True


DIGITS: dict[str, Preparation] = {
    "raw": _same,
    "normalised": _pixels(0.1307, 0.3081),
    "centred": rd.centre,
}
COLOURS: dict[str, Preparation] = {
    "raw": _same,
    "normalised": _pixels(0.5, 0.5),
    "centred": rd.centre,
}
GENES: dict[str, Preparation] = {"raw": _same, "centred": rd.centre, "standardised": rd.standardise}
AS_MADE: dict[str, Preparation] = {"as made": _same}
PROBLEMS = (
    Problem("mnist 0/1", rd.mnist, (0, 1), DIGITS),
    Problem("mnist 4/9", rd.mnist, (4, 9), DIGITS, exact=False),
    Problem("cifar10 airplane/automobile", rd.cifar10, (0, 1), COLOURS, exact=False),
    Problem("cifar10 cat/dog", rd.cifar10, (3, 5), COLOURS, exact=False),
    Problem("gordon", rd.gordon, (1, 0), GENES),
    Problem("golub", rd.golub, (1, 0), GENES),
    Problem("pomeroy", rd.pomeroy, (1, 0), GENES),
    Problem("SEQC neuroblastoma", rd.seqc_neuroblastoma, (1, 0), GENES),
    Problem("autism", rd.autism, (1, 0), GENES),
    Problem("synthetic: nearly_orthogonal", lambda: rd.nearly_orthogonal(20, 784, 4000.0), (1, -1), AS_MADE),
    Problem("synthetic: gaussian_mixture", lambda: rd.gaussian_mixture(10, 784), (1, -1), AS_MADE),
    Problem("synthetic: orthogonally_separable", lambda: rd.orthogonally_separable(100), (1, -1), AS_MADE),
    Problem("synthetic: symmetrise", lambda: rd.symmetrise(_labelled_by_a_line()), (1, -1), AS_MADE),
)


# Measuring


def measure(problem: Problem) -> list[dict[str, Any]]:
    """A row for each preparation of the problem."""
    whole = problem.load()
    two = rd.pair(Data(whole.x, whole.y, whole.name), *problem.classes)
    del whole
    lower, upper = (rd.margin(two, bias=True),) * 2 if problem.exact else rd.margin_bounds(two, bias=True)
    rows = []
    for name, prepare in problem.prepared.items():
        data = prepare(two)
        seen = rd.angles(data)
        row: dict[str, Any] = {"problem": problem.name, "prepared": name, "n": data.n, "d": data.dim}
        row |= {"p": seen.p(), "p_bias": seen.p(bias=True), "norms": seen.norms, "products": seen.products}
        row |= {"within": seen.within, "across": seen.across, "mu": seen.mu, "wrong": seen.wrong}
        row |= {"wrong_within": seen.wrong_within, "wrong_across": seen.wrong_across}
        row |= {"asymmetry": rd.asymmetry(data), "passing": _passing(data), "applies": _applying(data)}
        rows.append(row | {"margin": (lower, upper)})  # a hyperplane moves with the data: that of the first
        print(f"{problem.name}, {name}: p(X) = {row['p']:.2g}, mu = {row['mu']:.3f}", flush=True)
    return rows


def _passing(data: Data) -> list[int]:
    """How many draws pass with 0, 1, 2, ... samples at the most: p(X) falls with each one that is added."""
    return [int(count) for count in np.bincount([_passed(data, seed) for seed in range(DRAWS)])]


def _passed(data: Data, seed: int) -> int:
    most = min(MOST, data.n)
    for n in range(2, most + 1):
        if rd.p_orthogonality(rd.subset(data, n, seed)) < ENOUGH:
            return n - 1
    return most


def _applying(data: Data) -> dict[str, list[str]]:
    """The results that apply, for four networks of the papers from a small start, with the logistic loss."""
    if data.n > 1000:
        data = rd.subset(data, ASSESSED, balanced=True)
    return {
        name: [a.name for a in rf.theory.assess(network, data, "logistic") if a.status == "applies"]
        for name, network in _networks(data.dim)
    }


def _networks(dim: int) -> Iterator[tuple[str, rf.Network]]:
    for slope in (0.0, 0.1):
        kind = "leaky ReLU" if slope else "ReLU"
        yield f"{kind}, first layer", rf.Network.fixed_second_layer((dim, 20, 1), slope, sigma=1e-9, seed=0)
        yield f"{kind}, both layers", rf.Network.balanced((dim, 20, 1), slope, scale=1e-9, seed=0)


# The page


def fill(page: str, kept: dict[str, list[dict[str, Any]]]) -> str:
    """The page with the tables and the summary between their marks."""
    rows = [row for problem in PROBLEMS for row in kept.get(problem.name, [])]
    first = [kept[problem.name][0] for problem in PROBLEMS if problem.name in kept]
    common = set.intersection(*map(_results, rows))
    parts = {
        "summary": _summary([row for row in rows if not row["problem"].startswith("synthetic")]),
        "orthogonality": _table(_orthogonality, rows),
        "angles": _table(_angles, rows),
        "hyperplanes": _table(_hyperplane, first),
        "common": ", ".join(f"`{name}`" for name in sorted(common)) + ".",
        "speaking": _table(lambda row: _speaking(row, common), rows),
    }
    for name, part in parts.items():
        before, start, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        if not (start and end):
            sys.exit(f"{PAGE} has no marks for {name}.")
        page = f"{before}{start}{part}\n{end}{after}"
    return page


def _summary(real: list[dict[str, Any]]) -> str:
    best, flattest = max(real, key=lambda row: row["p"]), max(real, key=lambda row: row["mu"])
    even = min(real, key=lambda row: row["asymmetry"])
    return (
        f"Of the {len(real)} rows of real data below, the largest p(X) is **{_number(best['p'])}** "
        f"({_called(best)}): {ENOUGH / best['p']:.0f} times too small for a network that is almost linear, "
        f"and {_number(ENOUGH / 0.1**3 / best['p'])} times too small at the slope 0.1. The largest μ is "
        f"**{_signed(flattest['mu'])}** ({_called(flattest)}), where a positive number is needed. The least "
        f"asymmetry is **{even['asymmetry']:.2f}** ({_called(even)}), where 0 is needed."
    )


def _called(row: dict[str, Any]) -> str:
    return f"{row['problem']}, {row['prepared']}"


def _table(cells: Callable[[dict[str, Any]], dict[str, str]], rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown; preparations of one problem with the same cells share a line."""
    lines: list[tuple[str, list[str], dict[str, str]]] = []
    for row in rows:
        found, size = cells(row), f"{row['n']:,} × {row['d']:,}"
        data = f"{row['problem']}<br>{size}"
        if lines and lines[-1][0] == data and lines[-1][2] == found:
            lines[-1][1].append(row["prepared"])
        else:
            lines.append((data, [row["prepared"]], found))
    titles = list(lines[0][2])
    table = [["data, $n \\times d$", "prepared", *titles], ["---"] * 2 + ["---:"] * len(titles)]
    for before, (data, prepared, found) in zip([None, *lines], lines, strict=False):
        again = before is not None and before[0] == data
        table.append(["" if again else data, ", ".join(prepared), *found.values()])
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def _orthogonality(row: dict[str, Any]) -> dict[str, str]:
    n, d, (shortest, _), passing = row["n"], row["d"], row["norms"], row["passing"]
    largest = max(abs(product) for product in row["products"])
    reached = np.repeat(np.arange(len(passing)), passing)
    return {
        "$p(X)$": f"**{_number(row['p'])}**" if row["p"] >= ENOUGH else _number(row["p"]),
        "bias": _number(row["p_bias"]),
        "$1/\\xi$": _number(shortest**2 / ((n - 1) * largest)),
        "possible": _possible(most_possible(n, d, row["prepared"] in ("centred", "standardised"))),
        "pairs": f"{np.mean(reached >= 2):.0%}",
        "draw": str(reached.max()) if reached.max() < min(MOST, n) else f"all {reached.max()}",
    }


def most_possible(n: int, d: int, centred: bool) -> float:
    """The largest p(X) of n vectors of R^d: Welch's bound, and 1 - 1/n if they add up to zero."""
    most = 1 - 1 / n if centred else np.inf
    return min(most, np.sqrt(d * (n - 1) / (n - d)) / n) if n > d else most


def _angles(row: dict[str, Any]) -> dict[str, str]:
    return {
        "within": " to ".join(map(_signed, row["within"])),
        "wrong": f"{row['wrong_within']:.1%}",
        "across": " to ".join(map(_signed, row["across"])),
        "wrong ": f"{row['wrong_across']:.1%}",
        "$\\mu$": f"**{row['mu']:.2f}**" if row["mu"] > 0 else _signed(row["mu"]),
        "asymmetry": "**0**" if row["asymmetry"] == 0 else f"{row['asymmetry']:.2f}",
    }


def _hyperplane(row: dict[str, Any]) -> dict[str, str]:
    (lower, upper), longest = row["margin"], float(np.hypot(row["norms"][1], 1))
    low, high = _number(lower / longest), _number(upper / longest)
    margin = low if lower == upper else f"{low} to {high}"
    separable = "yes" if lower > 0 else "no"
    return {"$n / d$": _number(row["n"] / row["d"]), "separable": separable, "margin": margin}


def _results(row: dict[str, Any]) -> set[str]:
    return {name for names in row["applies"].values() for name in names}


def _speaking(row: dict[str, Any], common: set[str]) -> dict[str, str]:
    names = sorted(_results(row) - common)
    asked = f"{ASSESSED}" if row["n"] > 1000 else "all"
    return {"samples": asked, "also apply": ", ".join(f"`{name}`" for name in names) or "none"}


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


def _number(value: float) -> str:
    if value == np.inf:
        return "∞"
    return f"{value:.2g}" if value == 0 or 0.001 <= value < 1000 else _times(value)


def _possible(value: float) -> str:
    return "∞" if value == np.inf else f"{value:.3g}"  # three digits: 1 - 1/n is not 1


def _times(value: float) -> str:
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}·10<sup>{int(exponent)}</sup>".replace("-", "−")


def main(arguments: list[str]) -> None:
    """Measure what is asked for, and fill the page."""
    kept = json.loads(NUMBERS.read_text(encoding="utf-8")) if NUMBERS.exists() else {}
    for problem in PROBLEMS:
        if not arguments or problem.name in arguments:
            kept[problem.name] = measure(problem)
            NUMBERS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), kept), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
