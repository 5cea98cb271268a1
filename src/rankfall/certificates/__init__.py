"""Certificates: what is proved about the end of a flow, as a file that anybody can check."""

from rankfall.certificates import check
from rankfall.certificates._both import propose_both
from rankfall.certificates._document import Certificate
from rankfall.certificates._exact import propose
from rankfall.certificates._optimal import optimal
from rankfall.certificates._others import inseparable, refutes
from rankfall.certificates._problem import Missing, Point, Problem
from rankfall.certificates._ranks import rank, stable_rank
from rankfall.certificates._rest import Rests, rest
from rankfall.certificates._stays import Stays, stays

__all__ = [
    "Certificate",
    "Missing",
    "Point",
    "Problem",
    "Rests",
    "Stays",
    "check",
    "inseparable",
    "optimal",
    "propose",
    "propose_both",
    "rank",
    "refutes",
    "rest",
    "stable_rank",
    "stays",
]
