"""Zhang et al. in small: expressivity, the time course, modes, six points, and training."""

SMALL: dict[str, dict[str, object]] = {
    "1": {"n": 6, "width": 20, "side": 5},
    "2": {"width": 20, "side": 5},
    "3": {"width": 10},
    "3-draws": {"width": 10},
    "4": {"width": 12, "records": 21},
    "workshop-2": {
        "width": 20,
        "steps": 400,
        "angles": 360,
        "side": 5,
        "rtol": 1e-4,
        "sweep": (0.025, 0.05),
    },
    "C.4": {"late": 300, "slopes": (0.0,)},
    "C.5": {"pairs": 10, "dim": 3, "width": 10, "steps": 200},
    "C.6": {"pairs": 10, "dim": 3, "width": 10, "steps": 200},
}
