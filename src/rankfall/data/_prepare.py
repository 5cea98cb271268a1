"""Preparing data: two classes of many, fewer samples, a test part, centred or standardised features.

Every function takes `Data` and returns new `Data`, whose name tells what was done. Inputs in float32 stay so;
means and deviations are taken in float64. What is done to the training part is done to the test part too,
unless it says otherwise.
"""

from collections.abc import Callable
from math import ceil
from numbers import Real

import numpy as np

from .._naming import unknown
from ._dataset import Data

BLOCK = 2**22  # numbers of a part of the inputs that is turned to float64


def pair(data: Data, positive: float, negative: float) -> Data:
    """The samples of two classes only, in their order: label +1 for `positive`, -1 for `negative`.

    The class named first is the positive one: `pair(mnist(), 0, 1)` asks "is it a 0?". For labels 0 and 1
    that are to become -1 and +1, say `pair(data, 1, 0)`.
    """
    asked: tuple[object, object] = (positive, negative)
    for given in asked:
        if not isinstance(given, Real):
            raise ValueError(f"a class of {data.name!r} is a number, not {given!r}.")
    if positive == negative:
        raise ValueError(f"pair() needs two different classes, but both are {positive!r}.")
    known = _classes(data)
    for value in (positive, negative):
        if value not in known:
            raise unknown(f"class of {data.name!r}:", value, [f"{c:g}" for c in known])
    test = data.test and _of_two_classes(data.test, positive, negative)
    return _of_two_classes(data, positive, negative, test)


def subset(data: Data, n: int, seed: int = 0, balanced: bool = False) -> Data:
    """`n` samples of the training part, drawn without replacement; the test part is kept as it is.

    With `balanced` there are equally many of each class. A smaller `n` with the same seed gives a part of the
    same draw, so that a growing n adds samples and changes none.
    """
    n = _count("n", n)
    if not isinstance(balanced, bool):
        raise ValueError(f"balanced must be True or False, not {balanced!r}.")
    order = np.random.default_rng(_seed(seed)).permutation(data.n)
    if balanced:
        order = order[np.sort(_equally_many(data, n, order))]
    elif n > data.n:
        raise ValueError(f"{data.name!r} has {data.n} samples, fewer than the {n} asked for.")
    rows = order[:n]
    name = f"{data.name}, {n} balanced samples" if balanced else f"{data.name}, {n} samples"
    name += f" of seed {seed}" if seed else ""
    return Data(_rows(data.x, rows), data.y[rows], name, data.test)


def split(data: Data, test: float = 0.2, seed: int = 42) -> Data:
    """Some samples, drawn at random, become the test part: a share (`test=0.2`) or a number (`test=20`).

    Both parts hold the same samples in the same order as scikit-learn's
    `train_test_split(x, y, test_size=test, random_state=seed)`: shuffled, not stratified, a share rounded up.
    So a paper that used it trained on these samples.
    """
    if data.test is not None:
        raise ValueError(
            f"{data.name!r} has a test part of {data.test.n} samples already: split Data(data.x, data.y), "
            "or join both parts first."
        )
    count = _held_out(data, test)
    # scikit-learn draws from NumPy's legacy generator, whose stream is frozen.
    order = np.random.RandomState(_seed(seed)).permutation(data.n)
    name = f"{data.name}, split {data.n - count}/{count}"
    held_out, kept = order[:count], order[count:]
    part = Data(_rows(data.x, held_out), data.y[held_out], f"{name} test")
    return Data(_rows(data.x, kept), data.y[kept], name, part)


def centre(data: Data) -> Data:
    """Every feature minus its mean over the training part."""
    mean, _ = _moments([data.x])
    return _each_part(data, "centred", lambda x: _affine(x, mean, np.ones_like(mean)))


def standardise(data: Data, by: str = "train") -> Data:
    """Every feature minus its mean, divided by its standard deviation: scikit-learn's `StandardScaler`.

    Mean and deviation (over n, not n - 1) are those of the training part, or with `by="all"` of training and
    test part together, as where a paper standardised first and split later. A feature that is constant there
    is centred only, and so becomes 0.
    """
    if by not in ("train", "all"):
        raise unknown("samples to standardise by:", by, ("train", "all"))
    mean, deviation = _moments([data.x] if by == "train" or data.test is None else [data.x, data.test.x])
    done = "standardised" if by == "train" else "standardised by all"
    return _each_part(data, done, lambda x: _affine(x, mean, deviation))


def with_bias(data: Data) -> Data:
    """The coordinate 1 appended to every input: what the first layer of a network with biases sees."""
    return _each_part(data, "with bias", lambda x: np.concatenate([x, np.ones((len(x), 1), x.dtype)], axis=1))


# Arrays of our own making, which Data keeps without another copy because nobody can write to them


def _frozen(x: np.ndarray) -> np.ndarray:
    x.setflags(write=False)
    return x


def _rows(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return _frozen(x[rows])


# Classes


def _classes(data: Data) -> np.ndarray:
    if data.y.ndim != 1:
        raise ValueError(
            f"y of {data.name!r} must hold one class number for each sample, but has shape {data.y.shape}."
        )
    return np.unique(data.y)


def _of_two_classes(data: Data, positive: float, negative: float, test: Data | None = None) -> Data:
    rows = np.isin(data.y, (positive, negative))
    if not rows.any():
        raise ValueError(
            f"{data.name!r} has no sample of the classes {positive:g} and {negative:g}: leave this part out."
        )
    y = np.where(data.y[rows] == positive, 1.0, -1.0)
    return Data(_rows(data.x, rows), y, f"{data.name} {positive:g}/{negative:g}", test)


def _equally_many(data: Data, n: int, order: np.ndarray) -> np.ndarray:
    """Where in the order the first n / k samples of each of the k classes are."""
    known = _classes(data)
    each, left = divmod(n, len(known))
    if left:
        raise ValueError(
            f"{n} samples cannot be balanced over the {len(known)} classes of {data.name!r}: "
            f"take a multiple of {len(known)}."
        )
    places = [np.flatnonzero(data.y[order] == value) for value in known]
    fewest = min(range(len(known)), key=lambda k: len(places[k]))
    if len(places[fewest]) < each:
        raise ValueError(
            f"{n} balanced samples need {each} of each class, but {data.name!r} has {len(places[fewest])} of "
            f"the class {known[fewest]:g}: take at most {len(places[fewest]) * len(known)}."
        )
    return np.concatenate([place[:each] for place in places])


# Numbers of samples, and seeds


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive whole number, not {value!r}.")
    return int(value)


def _seed(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ValueError(f"the seed must be a whole number from 0 on, not {value!r}.")
    return int(value)


def _held_out(data: Data, test: object) -> int:
    """How many samples become the test part."""
    if isinstance(test, float | np.floating):
        if not 0 < test < 1:
            raise ValueError(f"as a share of the samples, test must be between 0 and 1, not {test}.")
        count = ceil(test * data.n)
    else:
        count = _count("test", test)
    if count >= data.n:
        raise ValueError(
            f"{count} test samples leave none of the {data.n} of {data.name!r} to train on: take fewer."
        )
    return count


# Features


def _each_part(data: Data, done: str, change: Callable[[np.ndarray], np.ndarray]) -> Data:
    """The data with its inputs changed, those of the test part too."""
    name = f"{data.name}, {done}"
    test = data.test and Data(_frozen(change(data.test.x)), data.test.y, f"{name} test")
    return Data(_frozen(change(data.x)), data.y, name, test)


def _moments(parts: list[np.ndarray], block: int = BLOCK) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column over the rows of all parts; 1 for a constant one."""
    n, first = sum(map(len, parts)), parts[0][0].astype(float)
    blocks = [rows for x in parts for rows in _blocks(x, block)]
    # Less the first row: a constant column then has the mean and the deviation 0 without rounding.
    shift = sum((rows - first).sum(axis=0) for rows in blocks) / n
    mean = first + shift
    variance = sum(((rows - first - shift) ** 2).sum(axis=0) for rows in blocks) / n
    # scikit-learn's bound for a variance that is nothing but rounding.
    eps = np.finfo(float).eps
    constant = variance <= n * eps * variance + (n * mean * eps) ** 2
    return mean, np.where(constant, 1.0, np.sqrt(variance))


def _affine(x: np.ndarray, mean: np.ndarray, deviation: np.ndarray, block: int = BLOCK) -> np.ndarray:
    """(x - mean) / deviation in the precision of x, computed in float64."""
    changed = np.empty_like(x)
    start = 0
    for rows in _blocks(x, block):
        changed[start : start + len(rows)] = (rows - mean) / deviation
        start += len(rows)
    return changed


def _blocks(x: np.ndarray, block: int) -> list[np.ndarray]:
    """The rows of x a few at a time: in float64 all of them would fill the memory for 50,000 images."""
    step = max(1, block // x.shape[1])
    return [x[start : start + step] for start in range(0, len(x), step)]
