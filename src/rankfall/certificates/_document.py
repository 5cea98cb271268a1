"""Certificate: a proof about the end of a flow, as a file."""

import json
import math
import os
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from pathlib import Path
from typing import Any

from rankfall._atomic import atomically
from rankfall.certificates import check
from rankfall.certificates._problem import Point, Problem


class Certificate:
    """What is proved about the end of a flow, in a form that other programs can check.

    `document` is what the file holds: the problem, the KKT point in exact numbers, and claims. The checker,
    `rankfall/certificates/check.py`, needs nothing but Python. Print a certificate to see what it proves.
    """

    def __init__(self, document: Mapping[str, Any], *, foreign: bool = False):
        self.document: dict[str, Any] = dict(document)
        self.foreign = foreign  # it comes from a file that nobody has checked

    @classmethod
    def of(
        cls,
        problem: Problem,
        point: Point | None,
        claims: Iterable[Mapping[str, Any]] = (),
        *,
        followed: Mapping[str, Any] | None = None,
        estimated: Mapping[str, Any] | None = None,
        data: bool = True,
    ) -> "Certificate":
        """The certificate of a point, with further claims: those that `stays` and the others return.

        - `point`: None for the claims that data are inseparable, and that the flow comes to rest.
        - `followed`, `estimated`: what is not proved, but reported with it.
        - `data`: put the data into the file; if not, whoever checks it needs them too.
        """
        told: dict[str, Any] = {
            "format": check.FORMAT,
            "version": 1,
            "problem": problem.document(data),
            "point": None if point is None else point.document(),
            "claims": [*([{"claim": "kkt"}] if point is not None else []), *(dict(each) for each in claims)],
        }
        told |= {
            key: {name: _finite(each) for name, each in value.items()}
            for key, value in (("followed", followed), ("estimated", estimated))
            if value
        }
        return cls(told)

    @property
    def claims(self) -> list[str]:
        """The names of what is claimed."""
        return [str(each["claim"]) for each in self.document["claims"]]

    def check(self, data: check.Data | None = None) -> check.Report:
        """Check it as a stranger would, if given against `data`: rows of x, and labels."""
        return check.check_text(json.dumps(self.document), data)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as JSON: under a temporary name first, then renamed."""
        with atomically(path) as draft:
            draft.write_text(json.dumps(self.document, separators=(",", ":")) + "\n", encoding="utf-8")
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Certificate":
        """Read what `save` wrote. It is not checked by that."""
        path = Path(path)
        try:
            document = check.parse(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, check.Malformed) as error:
            raise ValueError(f"{path} is not a certificate that can be read: {error}") from None
        if not isinstance(document, dict) or document.get("format") != check.FORMAT:
            raise ValueError(f"{path} is not a rankfall certificate.")
        return cls(document, foreign=True)

    def __str__(self) -> str:
        problem, point, about = (
            self.document["problem"],
            self.document["point"],
            self.document["problem"]["data"],
        )
        slope, told = float.fromhex(problem["slope"]), "; ".join(map(_proves, self.document["claims"]))
        lines = [
            f"Certificate: {problem['width']} neurons, slope {slope:g}, {problem['trained']} trained, on "
            f"{about['name']} ({about['samples']} samples of {about['features']} features).",
            f"  {'claims' if self.foreign else 'proved':10} {told}.",
        ]
        if point is not None:
            unknowns = sum(len(point.get(key, [])) for key in ("multipliers", "kinks", "amplitudes"))
            kind = "an enclosure" if "tau" in point else "exact rational numbers"
            lines[0] += f" {unknowns} unknowns, {kind}."
        for key in ("followed", "estimated"):
            if self.document.get(key):
                told = ", ".join(f"{name} {_short(value)}" for name, value in self.document[key].items())
                lines.append(f"  {key:10} {told}.")
        return "\n".join(map(check.plain, lines))

    __repr__ = __str__


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: as text."""
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _proves(claim: Mapping[str, Any]) -> str:
    """A claim in a few words."""

    def number(key: str, rounding: str) -> str:  # such that the sentence stays true
        return f"{Context(10, rounding).create_decimal_from_float(float.fromhex(claim[key])):g}"

    return {
        "kkt": lambda: "a KKT point of the margin problem",
        "stays": lambda: (
            f"every flow from within {number('radius', ROUND_FLOOR)} of a given state ends in its direction"
        ),
        "rank": lambda: f"rank {claim['rank']}",
        "stable rank": lambda: (
            f"stable rank from {number('lower', ROUND_FLOOR)} to {number('upper', ROUND_CEILING)}"
        ),
        "optimal": lambda: "no shorter first layer has these margins",
        "inseparable": lambda: "no network of this kind separates the data",
        "rest": lambda: (
            f"every flow from within {number('radius', ROUND_FLOOR)} of a given state comes to rest in a "
            f"minimum; the loss there, summed over samples, from {number('lower', ROUND_FLOOR)} to "
            f"{number('upper', ROUND_CEILING)}"
            + (f", with at least {claim['wrong']} samples misclassified" if "wrong" in claim else "")
        ),
        "refutes": lambda: (
            f"{claim['quantity']} {claim['relation']} {check.spoken(float.fromhex(claim['bound']))} "
            f"({claim['id']}) is false here"
        ),
    }[claim["claim"]]()
