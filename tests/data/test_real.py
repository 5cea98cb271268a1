import csv
import gzip
import pickle
import struct
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

import rankfall as rf
from rankfall.data import _catalogue as catalogue
from rankfall.data import _formats as formats
from rankfall.data import _store as store
from rankfall.data import gene_expression, take

# Images


def official(path, header):
    """The header and the bytes of an official MNIST file, read without the code under test."""
    content = gzip.decompress(path.read_bytes())
    return struct.unpack(f">{header // 4}I", content[:header]), np.frombuffer(content[header:], np.uint8)


def test_mnist_is_the_official_images_divided_by_255_then_shifted_and_scaled(cache, mnist):
    for path in mnist.values():
        take(path)
    (magic, n, rows, columns), pixels = official(mnist["train-images-idx3-ubyte.gz"], 16)
    assert (magic, n, rows, columns) == (2051, 60_000, 28, 28)
    data = rf.data.mnist(mean=0.1307, std=0.3081)
    images = pixels.reshape(60_000, 784)
    # The arithmetic of torchvision's ToTensor and Normalize, all in single precision.
    expected = (images[::50] / np.float32(255) - np.float32(0.1307)) / np.float32(0.3081)
    np.testing.assert_array_equal(data.x[::50], expected)
    assert data.x.dtype == data.y.dtype == np.float32
    np.testing.assert_array_equal(data.test.y, official(mnist["t10k-labels-idx1-ubyte.gz"], 8)[1])
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]  # as everybody counts them
    assert np.bincount(data.y.astype(int)).tolist() == counts
    assert (data.name, data.test.name, data.test.n) == ("mnist", "mnist test", 10_000)


@pytest.fixture
def miniature(monkeypatch, tmp_path):
    """Puts other files in place of those of a set, in a cache of its own."""
    monkeypatch.setenv("RANKFALL_DATA", str(tmp_path))
    with ExitStack() as stack:
        yield lambda *args, **facts: stack.enter_context(catalogue.listing(small(tmp_path, *args, **facts)))


def small(folder, name, contents, **facts):
    """The set of this name with other files, which are written to the folder."""
    files = tuple(
        catalogue.File(file, len(content), catalogue.checksum(content, "sha256"))
        for file, content in contents.items()
    )
    for file, content in contents.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / file).write_bytes(content)
    return replace(catalogue.real_set(name), files=files, **facts)


@pytest.fixture
def small_cifar(miniature):
    """CIFAR-10 with two images a batch, its records put together byte by byte."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (6, 2, 32, 32, 3), dtype=np.uint8)  # batch, image, row, column, channel
    labels = rng.integers(0, 10, (6, 2))
    contents = {}
    for b, name in enumerate([*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]):
        planes = [[images[b, i, :, :, c].tobytes() for c in range(3)] for i in range(2)]
        contents[name] = b"".join(bytes([labels[b, i]]) + b"".join(planes[i]) for i in range(2))
    miniature("cifar10", contents, samples=(10, 2))
    return images, labels


def test_cifar10_rows_are_channel_row_column_and_each_channel_has_its_mean(small_cifar):
    images, labels = small_cifar
    data = rf.data.cifar10(mean=(0.5, 0.4, 0.3), std=(0.1, 0.2, 0.4))
    shifted = (images / np.float32(255) - np.float32([0.5, 0.4, 0.3])) / np.float32([0.1, 0.2, 0.4])
    rows = shifted.transpose(0, 1, 4, 2, 3).reshape(12, 3072)
    np.testing.assert_array_equal(np.concatenate([data.x, data.test.x]), rows)
    np.testing.assert_array_equal(np.concatenate([data.y, data.test.y]), labels.ravel())
    assert not data.x.flags.writeable
    assert data.x.dtype == np.float32


def test_fashion_mnist_is_read_from_its_compressed_files(miniature):
    contents = {}
    for part, n in (("train", 3), ("t10k", 2)):
        images, labels = bytes(range(4 * n)), bytes(range(n))
        contents[f"{part}-images-idx3-ubyte.gz"] = gzip.compress(struct.pack(">4I", 2051, n, 2, 2) + images)
        contents[f"{part}-labels-idx1-ubyte.gz"] = gzip.compress(struct.pack(">2I", 2049, n) + labels)
    miniature("fashion_mnist", contents)
    data = rf.data.fashion_mnist()
    np.testing.assert_array_equal(data.x, (np.arange(12) / np.float32(255)).reshape(3, 4).astype(np.float32))
    assert data.test.y.tolist() == [0, 1]


@pytest.mark.parametrize(("mean", "std"), [((1, 2), 1), (np.nan, 1), (0, 0), (0, (1, 1, -1))])
def test_a_mean_or_deviation_that_is_none_is_refused(small_cifar, mean, std):
    with pytest.raises(ValueError, match=r"^(mean|std) "):
        rf.data.cifar10(mean, std)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "not an IDX file"),
        (b"\0\0\x0d\x01" + b"\0" * 8, "not an IDX file of unsigned bytes: it starts with '00000d01'"),
        (struct.pack(">2I", 2049, 3) + b"12", r"should have an array of \(3,\), but 2 bytes follow"),
        (struct.pack(">2I", 2051, 3), "should have an array"),
    ],
)
def test_an_idx_file_whose_header_does_not_fit_is_refused(content, sentence):
    with pytest.raises(ValueError, match=f"labels .*{sentence}"):
        formats.idx(content, "labels")


def test_a_part_of_a_cifar_record_is_refused():
    with pytest.raises(ValueError, match="3,072 bytes, not a multiple of the 3,073"):
        formats.cifar(bytes(3072), "batch")


# Genes


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [("gordon", (181, 12533), [150, 31]), ("golub", (72, 7129), [47, 25]), ("pomeroy", (60, 7128), [21, 39])],
)
def test_a_microarray_set_is_what_was_published(cache, sample, name, shape, counts):
    path = sample(f"gene_expression/{name}.npz")
    take(path)
    data = getattr(rf.data, name)()
    assert data.x.shape == shape
    assert data.x.dtype == np.float64
    assert np.bincount(data.y.astype(int)).tolist() == counts
    if name == "golub":  # the smallest: unpacking takes its time
        with np.load(path) as arrays:
            np.testing.assert_array_equal(data.y, arrays["y"])
            np.testing.assert_array_equal(data.x, arrays["X"])


def test_autism_is_the_five_genes_of_47_patients_and_57_controls(cache, autism):
    take(autism)
    with autism.open(newline="") as file:
        rows = list(csv.DictReader(file))
    data = rf.data.autism()
    np.testing.assert_array_equal(data.x, [[float(row[f"Gene{i}"]) for i in range(1, 6)] for row in rows])
    np.testing.assert_array_equal(data.y, [float(row["Autism"]) for row in rows])
    assert data.y.sum() == 47
    assert data.n == 104


def test_seqc_leaves_out_who_was_not_followed_and_splits_as_the_study(cache, sample):
    path = sample("neuroblastoma_seqc/seqc498.npz")
    take(path)
    with np.load(path) as arrays:
        x, y, training = arrays["X_introns"], arrays["y_3yr"], arrays["is_training"]
    data = rf.data.seqc_neuroblastoma("introns")
    np.testing.assert_array_equal(data.x, x[(y >= 0) & (training == 1)])
    np.testing.assert_array_equal(data.test.y, y[(y >= 0) & (training == 0)])
    assert (data.n, data.test.n) == (228, 233)
    with pytest.raises(ValueError, match=r"unknown features 'gene'\. Did you mean 'genes'"):
        rf.data.seqc_neuroblastoma("gene")


def test_neuroblastoma_starts_at_the_third_column_and_its_label_is_event_free(miniature):
    text = "id,Event-free,g1,g2\na,1,0.5,2\nb,0,1.5,-3\n"
    miniature("neuroblastoma", {"neuroblastoma.csv": text.encode()})
    data = rf.data.neuroblastoma()
    assert data.x.tolist() == [[0.5, 2.0], [1.5, -3.0]]
    assert data.y.tolist() == [1.0, 0.0]


def test_the_checksum_of_neuroblastoma_is_the_one_that_git_gives():
    # `printf 'hello\n' | git hash-object --stdin`
    assert catalogue.checksum(b"hello\n", "git") == "git:ce013625030ba8dba906f756967f9e9ca394464a"


TABLE = (
    '"","sample","TP53",MYCN,outcome\n1,"a-1",0.5,2e0,relapse\n2,"a-2",1.5,-3,cured\n3,"a-3",2,4,relapse\n'
)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_biologists_table_gives_numbers_and_classes_in_sorted_order(tmp_path, separator):
    path = tmp_path / "mine.csv"
    path.write_text(TABLE.replace(",", separator))
    data = gene_expression(path, label="outcome")
    assert data.x.tolist() == [[0.5, 2.0], [1.5, -3.0], [2.0, 4.0]]
    assert data.y.tolist() == [1.0, 0.0, 1.0]
    assert data.name == "mine"


def test_numeric_labels_stay_as_they_are_and_the_usual_names_are_found(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("Class,g\n1,2\n-1,3\n")
    assert gene_expression(path, name="other").y.tolist() == [1.0, -1.0]
    np.savez(tmp_path / "words.npz", X=np.eye(2), y=np.array(["tumour", "control"]))
    assert gene_expression(tmp_path / "words.npz").y.tolist() == [1.0, 0.0]
    parts = {"X_test": np.eye(2), "y_test": np.array(["control", "control"])}
    np.savez(tmp_path / "parts.npz", X=np.eye(2), y=np.array(["tumour", "control"]), **parts)
    assert gene_expression(tmp_path / "parts.npz").test.y.tolist() == [0.0, 0.0]
    np.savez(tmp_path / "numbers.npz", x=np.eye(2), y=[3, 4])
    assert gene_expression(tmp_path / "numbers.npz").y.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("name", ["y", "label", "target", "class", "Y"])
@pytest.mark.parametrize("labels", [["ill", "well"], [b"ill", b"well"], [0, 1]])
def test_the_labels_of_arrays_have_the_usual_names_too(tmp_path, name, labels):
    np.savez(tmp_path / "mine.npz", **{"X": np.eye(2), name: np.array(labels)})
    assert gene_expression(tmp_path / "mine.npz").y.tolist() == [0.0, 1.0]


WORDS = {"X": np.eye(3), "y": np.array(["ill", "well", "ill"])}


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"y": np.array(["ill", "well"])}, r"one target for each of the 3 rows of x, but has shape \(2,\)"),
        (
            {"y": np.array(list("abab")), "X_test": np.eye(3), "y_test": np.array(list("bb"))},
            "one target for each of the 3 rows",
        ),
        ({"X_test": np.eye(3), "y_test": [0, 1, 0]}, "are words in one part and numbers in the other"),
        ({"X_test": np.eye(3)}, "needs both X_test and y_test"),
        ({"y": np.array(["ill", "", "well"])}, "label 2 is missing: remove such samples"),
        ({"y": np.array("ill")}, r"one target for each of the 3 rows of x, but has shape \(\)"),
        ({"X": 3.0}, r"must be n x d, one row a sample, but has shape \(\)"),
    ],
)
def test_arrays_with_labels_in_words_are_checked_as_those_with_numbers(tmp_path, arrays, sentence):
    np.savez(tmp_path / "mine.npz", **(WORDS | arrays))
    with pytest.raises(ValueError, match=sentence):
        gene_expression(tmp_path / "mine.npz")


def test_a_separator_inside_a_quoted_name_separates_nothing(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text('"a;b;c;d","e","y"\n1,2,ALL\n3,4,AML\n')
    assert gene_expression(path).x.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("text", "label", "sentence"),
    [
        (TABLE, None, "which column of .* holds the targets. Name it by label="),
        (TABLE, "outcom", "has no column 'outcom'. Did you mean 'outcome'"),
        (TABLE.replace("1.5", "NA"), "outcome", "column 'TP53', row 2 below the header, is 'NA'"),
        (TABLE.replace("1.5", "inf"), "outcome", "is 'inf', not a finite number"),
        (
            "a;b;y\n1,5;1;0\n2,5;2;1\n",
            "y",
            "column 'a', row 1 below the header, is '1,5': write numbers with",
        ),
        ('a,b,y\n"1,234",1,0\n"3,456",2,1\n', "y", "is '1,234': write numbers .* without commas"),
        ("a,b,y\n1,NA,0\n2,NA,1\n", "y", "column 'b', row 1 below the header, is 'NA', not a finite number"),
        ("a,b,y\n1,,0\n2,,1\n", "y", "column 'b', row 1 below the header, is '', not a finite number"),
        (TABLE.replace(",4,", ","), "outcome", "row 3 below the header has 4 cells"),
        ("id,y\na,1\n", "y", "no column of numbers beside the label 'y'"),
        ("y\n1\n", "y", "needs a header row"),
        ("", "y", "is empty"),
        (b"\xff\xfe\0", "y", "not a text file in UTF-8"),
    ],
)
def test_a_table_that_cannot_be_read_is_answered_with_a_sentence(tmp_path, text, label, sentence):
    path = tmp_path / "mine.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=sentence):
        gene_expression(path, label)


def test_gene_expression_never_unpickles(tmp_path):
    np.savez(tmp_path / "trap.npz", X=np.eye(2), y=np.array([Trap(), Trap()], dtype=object))
    with pytest.raises(
        ValueError,
        match=r"the array 'y' of .* cannot be read: it holds pickled objects",
    ):
        gene_expression(tmp_path / "trap.npz")
    assert pickle.dumps(Trap())


class Trap:
    def __reduce__(self):
        return _sprung, ()


def _sprung():
    raise AssertionError("something was unpickled")


def test_the_canonical_npy_file_is_that_of_numpy(tmp_path):
    matrix = np.asfortranarray(np.random.default_rng(0).normal(size=(7, 5)))
    np.save(tmp_path / "a.npy", np.ascontiguousarray(matrix))
    assert formats.npy_bytes(matrix) == (tmp_path / "a.npy").read_bytes()


# What is not there


def test_a_set_that_is_not_here_says_how_it_comes(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKFALL_DATA", str(tmp_path / "none"))
    assert not rf.data.available("mnist")
    with pytest.raises(
        ValueError, match=r"^MNIST is not here: `rankfall data get mnist` fetches it \(12 MB\)"
    ):
        rf.data.mnist()
    with pytest.raises(ValueError, match="gordon is not here: `rankfall data import PATH` takes files you"):
        rf.data.gordon()
    with pytest.raises(ValueError, match=r"unknown set of real data 'mnits'\. Did you mean 'mnist'"):
        rf.data.available("mnits")
    assert not (tmp_path / "none").exists()


def test_every_set_has_a_loader_of_its_name_and_a_citation():
    for name, each in catalogue.real_sets().items():
        assert callable(getattr(rf.data, name))
        assert each.citation
        assert bool(each.mirrors) == bool(each.downloads) == (not each.source)


def test_without_the_variable_the_data_are_in_the_users_cache(monkeypatch):
    monkeypatch.delenv("RANKFALL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    assert "rankfall" in str(store.folder())


@pytest.mark.parametrize(
    ("text", "label", "sentence"),
    [
        ("g1,g2,label\n1,2,a\n2,3,NA\n", None, "the label in row 2 below the header is missing"),
        ("g1,g2,label\n1,2,a\n2,3,\n", None, "the label in row 2 below the header is missing"),
        ("1,2,3\n2,3,4\n", "3", "must start with a row that names its columns"),
    ],
)
def test_a_missing_label_and_a_missing_header_are_refused(tmp_path, text, label, sentence):
    (tmp_path / "genes.csv").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        gene_expression(tmp_path / "genes.csv", label=label)
