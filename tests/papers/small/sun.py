"""Sun and Tran in small."""

from rankfall.data import Data
from tests.papers.small.stand_ins import clouds, genes, images, whole


def five_genes() -> Data:
    return whole(clouds(60, 5, 2))


SMALL: dict[str, dict[str, object]] = {
    "1": {"epochs": 100},
    "2-3": {"load": genes, "width": 8, "printed_width": 8, "epochs": 20, "printed_epochs": 2},
    "2-3-gordon": {"load": genes, "width": 101, "printed_width": 8, "epochs": 20, "printed_epochs": 2},
    "4-5": {
        "load": five_genes,
        "width": 8,
        "printed_width": 8,
        "epochs": 50,
        "every": 1,
        "early": 1,
        "late": 30,
    },
    "6-7": {"load": images, "width": 8, "printed_width": 8, "batch": 40, "epochs": 2},
    "8": {"load": images, "width": 8, "printed_width": 8, "batch": 40, "epochs": 2},
    "9": {"load": images, "width": 8, "printed_width": 8, "batch": 40, "epochs": 40, "early": 5},
    "properties": {"n": 4, "dim": 40, "width": 12},
    "map": {"n": 6, "ratios": (80, 800), "width": 4},
}
