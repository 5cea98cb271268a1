"""Stand-ins for real data."""

import numpy as np

from rankfall.data import Data, pair


def clouds(n, dim, classes, make=lambda x: x):
    """Several classes around random means, in float32, with a test part."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(classes, dim))

    def part(count, test=None):
        y = np.arange(count) % classes
        return Data(make(means[y] + 0.3 * rng.normal(size=(count, dim))).astype(np.float32), y, test=test)

    return part(n, part(n // 2))


def images():
    return clouds(120, 12, 10)


def digits():
    return pair(clouds(60, 8, 2, np.abs), 0, 1)


def genes():
    return whole(clouds(12, 60, 2))


def whole(data):
    """The data without their test part: the experiment splits them itself."""
    return Data(data.x, data.y)
