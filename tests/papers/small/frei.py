"""Frei et al. in small."""

from rankfall.papers.frei import cifar, limits
from tests.papers.small.stand_ins import images

SMALL = {
    "limits": {
        "n": 4,
        "width": 4,
        "slopes": (0.5, 0.3),
        "starts": (
            limits.Start("2:2", 0.5, 0.01),
            limits.Start("1:3", 0.25, 0.01),
            limits.Start("1:3, large start", 0.25, 0.3),
        ),
    },
    "orthogonality": {"n": 4, "width": 4, "slopes": (0.5, 0.3), "reduced_dims": (2.5, 40.0)},
    "descent": {"n": 4, "dim": 20, "width": 8, "steps": 100, "records": (1, 10)},
    "step": {"n": 10, "dim": 400, "width": 200, "steps": 5, "records": (1, 2)},
    "dimension": {"n": 10, "dims": (200, 400), "width": 200, "steps": 5, "records": (1, 2)},
    "cifar": {
        "load": images,
        "width": 8,
        "batch": 40,
        "step": 0.3,
        "early": (1,),
        "starts": (
            cifar.Start("default", 1.0, 1.0, 0, 4),
            cifar.Start("first layer", 0.02, 1.0, 0, 4),
            cifar.Start("both layers", 0.02, 0.02, 0, 4),
            cifar.Start("few images", 0.02, 1.0, 60, 4),
        ),
    },
}
