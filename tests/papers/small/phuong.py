"""Phuong et al. in small."""

from tests.papers.small.stand_ins import digits

SMALL: dict[str, dict[str, object]] = {
    "limits": {"n": 6, "dim": 4, "width": 6},
    "support": {"scales": (1.0, 0.1), "turns": (150,)},
    "digits": {"load": digits, "width": 8, "batch": 20, "epochs": 8, "records": 5},
}
