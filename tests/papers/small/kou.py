"""Kou et al. in small."""

from tests.papers.small.stand_ins import images

SMALL: dict[str, dict[str, object]] = {
    "leaky": {"width": 4, "n": 4, "steps": 100, "records": 20},
    "relu": {"width": 6, "n": 4, "steps": 50, "class_sizes": (2, 4), "wide": 200},
    "synthetic": {"width": 16, "dim": 300, "steps": 30, "records": 8, "few": 6, "end_slopes": (0.01, 0.3)},
    "mnist": {"load": images, "width": 8, "batch": 40, "epochs": 2, "early_steps": (1,)},
}
