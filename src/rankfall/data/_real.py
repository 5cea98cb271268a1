"""Real data: images, and gene expression. They are read from the cache, and verified whenever they are read.

Nothing is downloaded here: `rankfall data get` does that, and `rankfall data import` takes files you have.
"""

import gzip
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from .._naming import suggestion
from . import _formats as formats
from ._catalogue import real_set
from ._dataset import Data
from ._files import label_column, npy, npz, read_file
from ._store import read


def mnist(mean: float = 0.0, std: float = 1.0) -> Data:
    """MNIST (LeCun et al. 1998): 60,000 images of digits, and 10,000 in the test part.

    In float32: a pixel from 0 to 255 becomes (pixel/255 - mean) / std, and a row of x is a flattened image
    of 28 x 28. y are the digits.
    """
    return _images("mnist", "", lambda content: content, mean, std)


def fashion_mnist(mean: float = 0.0, std: float = 1.0) -> Data:
    """Fashion-MNIST (Xiao et al. 2017): 60,000 images of clothes, and 10,000 in the test part; as `mnist`."""
    return _images("fashion_mnist", ".gz", gzip.decompress, mean, std)


def cifar10(mean: float | Sequence[float] = 0.0, std: float | Sequence[float] = 1.0) -> Data:
    """CIFAR-10 (Krizhevsky 2009): 50,000 colour images in ten classes, and 10,000 in the test part.

    In float32: a pixel from 0 to 255 becomes (pixel/255 - mean) / std; give three numbers for red, green
    and blue. A row of x is a flattened image in the order channel, row, column (3 x 32 x 32), as
    torchvision's. y are the class numbers: airplane, automobile, bird, cat, deer, dog, frog, horse, ship,
    truck.
    """
    means, stds = (np.repeat(_channels(v, name), 1024) for v, name in ((mean, "mean"), (std, "std")))

    n = real_set("cifar10").samples[1]  # in each of the six batches

    def part(batches: Sequence[str], name: str, test: Data | None = None) -> Data:
        read_batches = (formats.cifar(read("cifar10", batch), batch) for batch in batches)
        return _pixels(read_batches, n * len(batches), means, stds, name, test)

    test = part(["test_batch.bin"], "cifar10 test")
    return part([f"data_batch_{i}.bin" for i in range(1, 6)], "cifar10", test)


def autism() -> Data:
    """Five genes of 47 patients with autism (label 1) and 57 controls (0), unscaled.

    The columns Gene1 to Gene5 of the table; gender, age, site and regression are left out.
    """
    table = formats.table(read("autism", "autism.csv"), "autism.csv")
    columns = [table.header.index(f"Gene{i}") for i in range(1, 6)]
    x = np.array([table.columns[column] for column in columns], float).T
    return Data(x, table.classes(table.header.index("Autism")), "autism")


def gordon() -> Data:
    """Lung cancer (Gordon et al. 2002): 181 x 12,533 raw intensities; adenocarcinoma 0, mesothelioma 1."""
    return _matrix("gordon")


def golub() -> Data:
    """Leukaemia (Golub et al. 1999): 72 x 7,129 raw intensities; ALL 0, AML 1."""
    return _matrix("golub")


def pomeroy() -> Data:
    """Tumours of the nervous system (Pomeroy et al. 2002): 60 x 7,128, as published; died 0, survived 1."""
    return _matrix("pomeroy")


def seqc_neuroblastoma(features: Literal["genes", "transcripts", "introns"] = "genes") -> Data:
    """SEQC neuroblastoma (Zhang et al. 2015): log expression of 2,000 genes, transcripts or introns.

    The label is 1 for a relapse, progression or death within three years, 0 for none; the 37 patients who
    were not followed for so long are left out. The training and the test part are those of the study.
    """
    kinds = ("genes", "transcripts", "introns")
    if features not in kinds:
        raise ValueError(f"unknown features {features!r}. {suggestion(features, kinds)}")
    matrix = formats.npy(read("seqc_neuroblastoma", f"{features}.npy"))
    followed = matrix[matrix[:, -1] >= 0]
    training = followed[:, -2] == 1
    x, y = followed[:, :-2], followed[:, -1]
    name = f"seqc_neuroblastoma {features}"
    return Data(x[training], y[training], name, Data(x[~training], y[~training], f"{name} test"))


def neuroblastoma() -> Data:
    """Neuroblastoma (Oberthuer et al. 2006): 251 x 10,707, the features from the third column on.

    The label is the column `Event-free`: numbers stay, words become class numbers in sorted order.
    """
    table = formats.table(read("neuroblastoma", "neuroblastoma.csv"), "neuroblastoma.csv")
    label = table.header.index("Event-free")
    x = np.array([table.columns[i] for i in range(2, len(table.header)) if i != label], float).T
    return Data(x, table.classes(label), "neuroblastoma")


def gene_expression(path: str | Path, label: str | int | None = None, name: str | None = None) -> Data:
    """Any matrix of gene expression with one label for each sample, from a .csv, .npz or .npy file.

    As `load`, and made for tables as biologists keep them: labels in words become the class numbers
    0, 1, ... in sorted order, and columns that hold names instead of numbers, or that have no name (row
    names), are left out. A column of numbers with a gap in it, or of gaps alone, is refused. `label` is the
    column, or the array of an .npz file, with the labels; if not given, the only one called y, label,
    target or class.
    """
    arrays = partial(npz, numbered=_class_numbers)
    return read_file(path, label, name, {".npz": arrays, ".npy": npy, ".csv": _labelled_table})


def _images(name: str, ending: str, unpack: Callable[[bytes], bytes], mean: float, std: float) -> Data:
    means, stds = _channels(mean, "mean", 1), _channels(std, "std", 1)

    def part(prefix: str, title: str, test: Data | None = None) -> Data:
        names = f"{prefix}-images-idx3-ubyte{ending}", f"{prefix}-labels-idx1-ubyte{ending}"
        images, labels = (formats.idx(unpack(read(name, each)), each) for each in names)
        flat = images.reshape(len(images), -1)
        return _pixels([(flat, labels)], len(flat), means, stds, title, test)

    return part("train", name, part("t10k", f"{name} test"))


def _pixels(
    batches: Iterable[tuple[np.ndarray, np.ndarray]],
    n: int,
    mean: np.ndarray,
    std: np.ndarray,
    name: str,
    test: Data | None,
) -> Data:
    """Images of bytes, batch by batch, as float32 in one array that is filled in place: it can be large."""
    x: np.ndarray | None = None
    y, done = np.empty(n, np.float32), 0
    for images, labels in batches:
        x = np.empty((n, images.shape[1]), np.float32) if x is None else x
        rows = x[done : done + len(images)]
        np.divide(images, np.float32(255), out=rows)
        if mean.any():
            rows -= mean
        if (std != 1).any():
            rows /= std
        y[done : done + len(images)] = labels
        done += len(images)
    if x is None or done != n:
        raise ValueError(f"{name} should have {n:,} images, but has {done:,}.")
    x.setflags(write=False)  # then Data needs no copy of its own
    y.setflags(write=False)
    return Data(x, y, name, test)


def _channels(values: float | Sequence[float], name: str, channels: int = 3) -> np.ndarray:
    """One number for each channel of the images."""
    try:
        given = np.asarray(values, np.float32)
    except (TypeError, ValueError):
        given = np.full(0, np.nan, np.float32)
    if given.shape not in ((), (channels,)) or not np.isfinite(given).all():
        raise ValueError(
            f"{name} must be one number, or one for each of {channels} channels, not {values!r}."
        )
    if name == "std" and (given <= 0).any():
        raise ValueError(f"std divides the pixels, so it must be positive, not {values!r}.")
    return np.broadcast_to(given, (channels,))


def _matrix(name: str) -> Data:
    matrix = formats.npy(read(name, f"{name}.npy"))
    return Data(matrix[:, :-1], matrix[:, -1], name)


def _labelled_table(path: Path, label: str | int | None, name: str) -> Data:
    table = formats.table(path.read_bytes(), str(path))
    target = label_column(path, table.header, label)
    named = [i for i, column in enumerate(table.header) if column and i != target]
    features = [values for i in named if (values := table.numbers(i)) is not None]
    if not features:
        raise ValueError(f"{path} has no column of numbers beside the label {table.header[target]!r}.")
    return Data(np.stack(features, axis=1), table.classes(target), name)


def _class_numbers(path: Path, parts: list[np.ndarray]) -> list[np.ndarray]:
    """The labels of the training and the test part: words become class numbers, the same in both."""
    words = [labels.dtype.kind in "US" for labels in parts]
    if not any(words):
        return parts
    if not all(words):
        raise ValueError(
            f"the labels of {path} are words in one part and numbers in the other: make both alike."
        )
    flat = np.concatenate([_text(labels).ravel() for labels in parts])
    if gaps := [row for row, word in enumerate(flat.tolist(), 1) if formats.is_gap(word)]:
        raise ValueError(f"{path}: label {gaps[0]} is missing: remove such samples.")
    ends = np.cumsum([labels.size for labels in parts])
    numbers = np.split(formats.class_numbers(flat), ends[:-1])
    return [each.reshape(labels.shape) for each, labels in zip(numbers, parts, strict=True)]


def _text(labels: np.ndarray) -> np.ndarray:
    return np.char.decode(labels, "utf-8", "surrogateescape") if labels.dtype.kind == "S" else labels
