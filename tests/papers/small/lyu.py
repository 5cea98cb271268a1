"""Lyu et al. in small."""

from tests.papers.small.stand_ins import images

SMALL: dict[str, dict[str, object]] = {
    "1": {"load": images, "samples": 100, "width": 32, "layers": 4, "batch": 10, "epochs": 20, "records": 12},
    "margins": {"n": 4, "width": 4, "records": 20},
    "schedule": {"epochs": 600, "width": 10},
    "symmetric": {"widths": (2, 3), "pairs": 1, "hint_width": 6, "angles": 61},
}
