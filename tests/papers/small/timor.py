"""Timor et al. in small."""

SMALL: dict[str, dict[str, object]] = {
    "ranks": {"steps": 2000},
    "angles": {"starts": 30, "steps": 2000, "angles": (100,)},
    "depth": {"depths": (2, 4), "searches": 2},
}
