"""The figures of the theory pages: each result's predictions beside its example. `make figures` runs it.

With names, only those results.
"""

import sys
from pathlib import Path

from rankfall import plot
from rankfall.theory import RESULTS, assessed

FOLDER = Path(__file__).parent / "assets" / "theory"


def main(names: list[str]) -> None:
    """Draw them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names or RESULTS:
        example = RESULTS[name].example()
        verification = assessed(RESULTS[name], example.situation).verify(example.evidence())
        print(plot.save(plot.verdict_figure(verification), FOLDER / f"{name}.png"), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
