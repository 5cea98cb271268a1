import gzip
import hashlib
import io
import tarfile
import zipfile

import numpy as np
import pytest

import rankfall as rf
from rankfall.data import _catalogue as catalogue
from rankfall.data import _recognise as recognise
from rankfall.data import _store as store


def in_place(cache):
    """The files that a loader could see, and the leftovers that nobody should."""
    return sorted(
        str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file() and path.name != ".lock"
    )


def taken(path):
    return [(found.known[0].name, found.known[1].name) for found in rf.data.take(path) if found.known]


def refusals(path):
    return [found.refusal for found in rf.data.take(path) if not found.known]


LABELS = ("mnist", "t10k-labels-idx1-ubyte")


def test_mnist_is_taken_in_any_wrapping_whatever_it_is_called(cache, tmp_path, sample):
    official = sample("mnist/t10k-labels-idx1-ubyte.gz").read_bytes()
    plain = gzip.decompress(official)
    wrapped = {"a.gz": official, "b": plain, "c.gz": gzip.compress(plain, 1)}
    for name, content in wrapped.items():
        (tmp_path / name).write_bytes(content)
    with zipfile.ZipFile(tmp_path / "d.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside/labels", plain)
        archive.writestr("inside/notes.txt", "hello")
    with tarfile.open(tmp_path / "e.tar", "w") as tar:
        tar.add(tmp_path / "a.gz", "../a.gz")
    for name in (*wrapped, "d.zip", "e.tar"):
        (cache / LABELS[0] / LABELS[1]).unlink(missing_ok=True)
        assert taken(tmp_path / name) == [LABELS], name
        assert (cache / LABELS[0] / LABELS[1]).read_bytes() == plain
    assert taken(tmp_path) == [LABELS] * 6  # the cache itself is in that folder
    assert not rf.data.available("mnist")
    assert [file.name for file in store.missing(catalogue.real_set("mnist"))][-1] == "t10k-images-idx3-ubyte"


def test_a_batch_of_cifar10_in_an_npz_file_becomes_its_official_binary_file(cache, sample):
    assert taken(sample("cifar10/test_batch.npz")) == [("cifar10", "test_batch.bin")]
    content = (cache / "cifar10" / "test_batch.bin").read_bytes()
    # The SHA1 that was published with the binary version.
    assert hashlib.sha1(content).hexdigest() == "67eb016db431130d61cd03c7ad570b013799c88c"


def test_the_same_numbers_in_a_table_are_the_same_set(cache, tmp_path, sample):
    with np.load(sample("gene_expression/golub.npz")) as arrays:
        x, y = arrays["X"], arrays["y"]
    rows = [["", *(f"g{i}" for i in range(x.shape[1])), "class"]]
    rows += [
        [str(i), *map(repr, row.tolist()), ("ALL", "AML")[k]]
        for i, (row, k) in enumerate(zip(x, y, strict=True))
    ]
    (tmp_path / "leukaemia.csv").write_text("\n".join(",".join(row) for row in rows))
    assert taken(tmp_path / "leukaemia.csv") == [("golub", "golub.npy")]
    np.testing.assert_array_equal(rf.data.golub().x, x)
    np.savez(tmp_path / "other.npz", X=x, y=1 - y)
    assert refusals(tmp_path / "other.npz") == [recognise._FOREIGN]


@pytest.fixture
def packed_labels():
    return gzip.compress(b"\0\0\x08\x01\0\0\0\x03abc")


def test_damaged_and_foreign_files_are_refused_each_with_its_sentence(cache, tmp_path, packed_labels):
    files = {
        "t10k-labels-idx1-ubyte.gz": (
            packed_labels[:-9],
            "t10k-labels-idx1-ubyte.gz of MNIST has 22 bytes instead of",
        ),
        "half.gz": (packed_labels[:-9], "is damaged or cannot be read: Compressed file ended"),
        "labels.gz": (packed_labels, "no known set has"),
        "labels": (gzip.decompress(packed_labels), "is an IDX file, but not of MNIST"),
        "autism.csv": (b"a,b\n1,2\n", "autism.csv of autism has 8 bytes instead of 7,041"),
        "data_batch_1": (b"\x80\x02}q.", "is a pickle, which could run anything and is never opened"),
        "empty": (b"", "is empty"),
        "golub.csv": (b"a,b\n1,2\n", "is called like golub, but has other numbers"),
        "labels.xz": (b"\xfd7zXZ\0rest", "is an archive of a kind that is not opened"),
        "labels.bz2": (b"BZh9rest", "bring it as .gz, .tar, .tar.gz or .zip"),
        "broken.zip": (b"PK\x03\x04rest", "is damaged"),
    }
    for name, (content, sentence) in files.items():
        (tmp_path / name).write_bytes(content)
        (refusal,) = refusals(tmp_path / name)
        assert sentence in refusal, name
    assert in_place(cache) == []


def test_an_import_never_unpickles_and_never_opens_a_zip_in_a_zip(cache, tmp_path):
    np.savez(tmp_path / "trap.npz", X=np.eye(2), y=np.array([Trap(), Trap()], dtype=object))
    assert "holds pickled objects, which could run anything" in refusals(tmp_path / "trap.npz")[0]
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("a.txt", "hello")
    with zipfile.ZipFile(tmp_path / "nested.zip", "w") as archive:
        archive.writestr("inner.zip", inner.getvalue())
    assert refusals(tmp_path / "nested.zip") == [recognise._FOREIGN]


class Trap:
    def __reduce__(self):
        return _sprung, ()


def _sprung():
    raise AssertionError("something was unpickled")


def test_a_path_that_is_not_there_is_a_sentence(cache, tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        rf.data.take(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ValueError, match="is a link that leads to no file"):
        rf.data.take(tmp_path / "loop")
    (tmp_path / "empty").mkdir()
    assert refusals(tmp_path / "empty") == ["is a folder without files"]


def test_one_bad_file_never_ends_the_import_of_a_folder(cache, tmp_path, autism):
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, y in (("c", np.ones(2) * 1j), ("d", np.zeros(2, "M8[D]")), ("s", np.zeros(2, [("a", "f8")]))):
        np.savez(folder / f"{name}.npz", X=np.eye(2), y=y)
    with zipfile.ZipFile(folder / "nameless.zip", "w") as archive:
        archive.writestr("x", "hello")
    content = (folder / "nameless.zip").read_bytes().replace(b"x", b"\0")  # a name that ends where it starts
    (folder / "nameless.zip").write_bytes(content)
    (folder / "z.csv").write_bytes(autism.read_bytes())
    found = rf.data.take(folder)
    assert len(found) == 5
    assert [each.known is not None for each in found] == [False] * 4 + [True]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\r\n"])
def test_the_line_ends_of_a_table_do_not_matter(cache, tmp_path, autism, end):
    official = autism.read_bytes()
    (tmp_path / "mine.csv").write_bytes(end.encode().join(official.splitlines()) + end.encode())
    assert taken(tmp_path / "mine.csv") == [("autism", "autism.csv")]
    assert (cache / "autism" / "autism.csv").read_bytes() == official


def packed(*contents, style=tarfile.GNU_FORMAT):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=style) as tar:
        for number, content in enumerate(contents):
            member = tarfile.TarInfo(f"file{number}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive.getvalue()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    "harm",
    [
        lambda tar: tar[:1024] + b"x" * 9 + tar[1033:],  # in the second header
        lambda tar: tar[:1024],  # between two files
        lambda tar: tar[:1300],  # in the second header
        lambda tar: tar[:2000],  # in the second file
    ],
)
def test_a_tar_archive_that_is_damaged_or_cut_says_so(cache, tmp_path, pack, harm):
    (tmp_path / "files.tar").write_bytes(pack(harm(packed(b"a", b"b" * 1000, b"c"))))
    refused = [found for found in rf.data.take(tmp_path / "files.tar") if not found.foreign]
    assert [found.where for found in refused] == [str(tmp_path / "files.tar")]
    assert "is damaged" in refused[0].refusal


def test_a_compressed_archive_that_was_altered_in_a_file_says_so(cache, tmp_path):
    plain = packed(b"a" * 1000, b"b" * 1000)
    content = bytearray(gzip.compress(plain, 0))  # stored as it is
    content[content.index(b"b" * 1000)] ^= 1
    (tmp_path / "files.tar.gz").write_bytes(content)
    assert any("CRC" in refusal for refusal in refusals(tmp_path / "files.tar.gz"))


def test_an_old_tar_archive_is_opened_and_one_in_a_zip_is_told(cache, tmp_path, autism):
    tar = bytearray(packed(autism.read_bytes()))
    tar[257:512], tar[148:156] = bytes(255), b" " * 8  # the header that tar had before POSIX
    tar[148:156] = b"%06o\0 " % sum(tar[:512])
    (tmp_path / "old.tar").write_bytes(tar)
    assert taken(tmp_path / "old.tar") == [("autism", "autism.csv")]
    with zipfile.ZipFile(tmp_path / "both.zip", "w") as archive:
        archive.writestr("old.tar", bytes(tar))
        archive.writestr("old.tar.gz", gzip.compress(tar))
    assert all("inside another one: unpack it first" in each for each in refusals(tmp_path / "both.zip"))
