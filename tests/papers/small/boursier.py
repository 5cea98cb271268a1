"""Boursier et al. in small."""

SMALL: dict[str, dict[str, object]] = {
    "pair": {"width": 12, "records": 51, "steps": 15_000},
    "high": {"n": 12, "dims_per_sample": 3, "width": 40, "steps": 900},
    "toys": {"width": 8, "starts": 2, "steps": 4000},
}
