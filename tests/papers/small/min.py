"""Min et al. in small."""

from rankfall.data import Data, centre
from tests.papers.small.stand_ins import digits


def centred() -> Data:
    return centre(digits())


SMALL: dict[str, dict[str, object]] = {
    "alignment": {"n": 6, "width": 8, "early_records": 24, "late_records": 12},
    "time": {"sizes": (4, 8), "width": 6},
    "mnist": {
        "load": centred,
        "width": 6,
        "sigma": 1e-3,
        "step": 1.0,
        "steps": 100,
        "every": 5,
        "aligned": 10,
        "moves": 20,
    },
}
