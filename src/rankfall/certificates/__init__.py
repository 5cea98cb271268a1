"""Certificates: what is proved about the end of a flow, as a file that anybody can check."""

from rankfall.certificates.both import propose_both
from rankfall.certificates.document import Certificate
from rankfall.certificates.exact import propose
from rankfall.certificates.optimal import optimal
from rankfall.certificates.others import inseparable, refutes
from rankfall.certificates.problem import Missing, Point, Problem
from rankfall.certificates.ranks import rank, stable_rank
from rankfall.certificates.stays import Stays, stays

__all__ = [
    "Certificate",
    "Missing",
    "Point",
    "Problem",
    "Stays",
    "inseparable",
    "optimal",
    "propose",
    "propose_both",
    "rank",
    "refutes",
    "stable_rank",
    "stays",
]
