"""Sun and Tran in small."""

from rankfall.data import Data
from rankfall.papers.sun.readings import VALUES
from tests.papers.small.stand_ins import clouds, genes, images


def five_genes() -> Data:
    return clouds(16, 5, 2)


SMALL: dict[str, dict[str, object]] = {
    "1": {"epochs": 100},
    "2-3": {"load": genes, "width": 8, "epochs": 20},
    "2-3-gordon": {"load": genes, "width": 8, "epochs": 20},
    "4-5": {"load": five_genes, "width": 8, "printed_width": 8, "epochs": 50, "every": 1},
    "6-7": {
        "load": images,
        "width": 8,
        "batch": 40,
        "epochs": 2,
        "start": 1,
        "read_off": dict.fromkeys(VALUES, 1),
        "accuracy": 1.0,
    },
    "8": {
        "load": images,
        "width": 8,
        "printed_width": 8,
        "batch": 40,
        "epochs": 2,
        "start": 1,
        "first": 1,
    },
    "9": {"load": images, "width": 8, "printed_width": 8, "batch": 40, "epochs": 40},
    "properties": {"n": 4, "dim": 40, "width": 12},
    "map": {"n": 6, "ratios": (80, 800), "width": 4},
}
