"""What commands print, and the exit code of those that have no answer yet."""

import shlex
import sys
from typing import Any

NO_ANSWER = 3  # the exit code of a command that ended before it had an answer


FLAGS = ("--bias", "--no-bias")  # options without a value


def again(without: tuple[str, ...], *more: str) -> str:
    """This command once more, without some of its options and with others."""
    kept, words = ["rankfall"], iter(sys.argv[1:])
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in without:
            kept.append(word)
        elif not equals and name not in FLAGS:
            next(words, None)  # its value
    return shlex.join([*kept, *more])


def say(console: Any, text: str) -> None:
    """Print as it is: no markup, no colours, no line breaks but the text's own."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def numbers(values: Any) -> str:
    """A few numbers in one cell of a table."""
    import numpy as np

    return ", ".join(f"{value:.6g}" for value in np.ravel(values))
