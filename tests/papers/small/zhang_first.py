"""Zhang et al. in small: the course and the ends of training, and deep networks."""

SMALL: dict[str, dict[str, object]] = {
    "theorem-5": {"steps": 100},
    "corollary-6": {"pairs": 4, "dim": 2},
    "corollary-14": {"pairs": 8, "dim": 3, "width": 6},
    "theorem-13": {"pairs": 8, "dim": 3, "width": 6, "norms": (1e-2, 1e-4)},
    "5": {"dim": 4, "width": 24, "pairs": 20, "fewer": 20, "left": 1e-5},
    "deeper": {"dim": 4, "width": 24, "depths": (3,), "scales": (0.03,), "pairs": 20},
}
