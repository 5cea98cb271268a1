"""Le and Jegelka in small."""

SMALL: dict[str, dict[str, object]] = {
    "linear": {"depths": (3,)},
    "tail": {"depths": (3,)},
    "skips": {"kinds": ("diagonal", "free")},
    "counterexample": {"width": 10},
}
