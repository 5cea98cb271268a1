import errno
import pickle

import numpy as np
import pytest

from rankfall.data import gene_expression, load

X = np.array([[1.5, -2.0], [0.25, 3.0], [1e-3, 4.0]])
Y = np.array([1.0, -1.0, 1.0])


@pytest.fixture
def write(tmp_path):
    def to(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return to


def assert_loaded(data, x=X, y=Y):
    np.testing.assert_array_equal(data.x, x)
    np.testing.assert_array_equal(data.y, y)


# .npz


@pytest.mark.parametrize("name", ["x", "X"])
def test_an_npz_file_gives_back_the_arrays_and_the_test_part(tmp_path, name):
    np.savez(tmp_path / "mine.npz", **{name: X, "y": Y, f"{name}_test": -X, "y_test": -Y})
    data = load(tmp_path / "mine.npz")
    assert_loaded(data)
    assert_loaded(data.test, -X, -Y)
    assert data.name == "mine"


def test_an_npz_file_needs_no_test_part_and_label_names_the_targets(tmp_path):
    np.savez_compressed(tmp_path / "mine.npz", x=X, y=Y, sex=-Y)
    assert load(str(tmp_path / "mine.npz"), name="other").name == "other"
    assert load(tmp_path / "mine.npz").test is None
    assert_loaded(load(tmp_path / "mine.npz", label="sex"), y=-Y)


def test_single_precision_stays_single(tmp_path):
    np.savez(tmp_path / "mine.npz", x=X.astype(np.float32), y=Y)
    assert load(tmp_path / "mine.npz").x.dtype == np.float32


@pytest.mark.parametrize(
    ("arrays", "label", "sentence"),
    [
        ({"images": X, "y": Y}, None, "has no array 'x'. Known: images, y."),
        ({"x": X, "labels": Y}, None, "has no array 'y'. Known: x, labels."),
        ({"x": X, "labels": Y}, "label", "has no array 'label'. Did you mean 'labels'"),
        ({"x": X, "y": Y, "x_test": X}, None, "both x_test and y_test"),
        ({"x": X, "y": Y[:2]}, None, "one target for each of the 3 rows"),
        (
            {"x": np.array([[1, np.nan]]), "y": [1]},
            None,
            r"x of 'mine' has 1 entries that are NaN .* \[0, 1\]",
        ),
        ({"x": X, "y": np.array(["a", "b", "c"])}, None, "y of 'mine' must be real numbers"),
        ({"x": X * 1j, "y": Y}, None, "the array 'x' of .* holds complex128 entries: give real numbers"),
        ({"x": X, "y": Y.astype("M8[D]")}, None, "the array 'y' of .* holds datetime64"),
    ],
)
def test_an_npz_file_with_the_wrong_arrays_is_answered_with_a_sentence(tmp_path, arrays, label, sentence):
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(ValueError, match=sentence):
        load(tmp_path / "mine.npz", label)


class Trap:
    sprung = False

    def __reduce__(self):
        return _spring, ()


def _spring():
    Trap.sprung = True


def test_pickled_objects_are_never_loaded(tmp_path, write):
    trap = np.empty(3, object)
    trap[:] = Trap()
    np.savez(tmp_path / "a.npz", x=trap, y=Y)
    np.save(tmp_path / "b.npy", trap)
    for path in (tmp_path / "a.npz", tmp_path / "b.npy", write("c.npy", pickle.dumps(Trap()))):
        with pytest.raises(
            ValueError, match=r"holds pickled objects, which .* never opened|is not a valid .npy file"
        ):
            load(path)
    assert not Trap.sprung


def test_a_truncated_or_damaged_npz_file_is_refused(tmp_path, write):
    np.savez(tmp_path / "mine.npz", x=X, y=Y)
    content = (tmp_path / "mine.npz").read_bytes()
    with pytest.raises(ValueError, match=r"short.npz is not a valid .npz archive"):
        load(write("short.npz", content[:-100]))
    at = content.index(X.tobytes())
    with pytest.raises(ValueError, match=r"the array 'x' of .*flipped.npz is damaged or cannot be read"):
        load(write("flipped.npz", content[:at] + b"\xff" + content[at + 1 :]))
    at = content.index(b"PK\x01\x02")
    with pytest.raises(ValueError, match=r"new.npz is damaged or cannot be read: zip file version 25.5"):
        load(write("new.npz", content[: at + 6] + b"\xff" + content[at + 7 :]))


# .npy


@pytest.mark.parametrize(("label", "column"), [(None, 2), (2, 2), ("0", 0), (-3, 0), (1, 1)])
def test_a_column_of_an_npy_matrix_holds_the_targets_the_last_one_if_not_told(tmp_path, label, column):
    columns = [X[:, 0], X[:, 1]]
    columns.insert(column, Y)
    np.save(tmp_path / "mine.npy", np.column_stack(columns))
    assert_loaded(load(tmp_path / "mine.npy", label))


@pytest.mark.parametrize(
    ("array", "label", "sentence"),
    [
        (X, "y", "have no names: label must be a number from 0 to 1, not 'y'"),
        (X, 2, "has the columns 0 to 1, but label is 2"),
        (Y, None, r"must hold a matrix.*shape is \(3,\).*numpy.savez"),
        (X[:, :1], None, r"at least one of features, but its shape is \(3, 1\)"),
        (np.array([["a", "b"]]), None, "must be real numbers"),
        (np.array([[1, np.inf]]), None, "NaN or infinite"),
        (X * 1j, None, "holds complex128 entries"),
    ],
)
def test_an_npy_file_that_is_no_such_matrix_is_answered_with_a_sentence(tmp_path, array, label, sentence):
    np.save(tmp_path / "mine.npy", array)
    with pytest.raises(ValueError, match=sentence):
        load(tmp_path / "mine.npy", label)


# .csv


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_a_csv_file_is_read_with_any_usual_delimiter_line_end_and_mark_of_excel(write, mark, end, start):
    rows = [["a", "y", "b"], ["1.5", "1", "-2"], ["0.25", "-1", " 3.0"], ["1e-3", "+1", "4"]]
    path = write("mine.csv", start + end.join(mark.join(row) for row in rows) + end + end)
    assert_loaded(load(path))
    assert_loaded(load(path, label="y"))
    assert_loaded(load(path, label="b"), np.column_stack([X[:, 0], Y]), X[:, 1])


def test_a_csv_file_may_be_quoted_and_name_its_columns_as_it_likes(write):
    path = write("mine.csv", '"height, in m";"# of toes";"Label"\n"1.5";-2;1\n0.25;"3";-1\n1e-3;4;"1"')
    assert_loaded(load(path))
    assert_loaded(load(path, label="height, in m"), np.column_stack([X[:, 1], Y]), X[:, 0])


def test_a_header_may_be_longer_than_any_cell(write):
    names = [f"gene{i:08}" for i in range(15_000)]
    path = write("wide.csv", ",".join(["y", *names]) + "\n" + ",".join(["1"] * 15_001) + "\n")
    assert load(path).dim == 15_000


def test_labels_zero_and_one_stay_as_they_are(write):
    np.testing.assert_array_equal(load(write("mine.csv", "x,y\n1,0\n2,1\n")).y, [0, 1])


@pytest.mark.parametrize(
    ("text", "label", "sentence"),
    [
        ("a,outcome\n1,2\n", "outcom", "has no column 'outcom'. Did you mean 'outcome'. Known: a, outcome."),
        (
            "a,b\n1,2\n",
            None,
            r"which column of .*mine.csv holds the targets. Name it by label=, .* --label .* Known: a, b.",
        ),
        ("x,y,label\n1,2,3\n", None, "which column"),
        ("a,y,y\n1,2,3\n", "y", "2 columns named 'y'"),
        ("1,2\n3,4\n", None, "a row that names its columns, but its first row is '1,2'"),
        ("", None, "is empty"),
        ("\n", None, "a row that names its columns, but its first row is ''"),
        ("y\n1\n", None, "has the column 'y' only"),
        (",x,y\n0,1,1\n1,2,1\n", None, "column 1 of .* has no name.*index=False"),
        ("x,y\n", None, "a header row but no data"),
        ("x,y\n1,2\n1,2,3\n", None, "line 3 of .* has 3 cells, but the header names 2 columns"),
        ("x,y\n1,2,3\n1,2,3\n", None, "line 2 of .* has 3 cells, but the header names 2 columns"),
        ("x,y\n1,2\n\n,1\n", None, "column 'x' of .*, line 4, is empty"),
        ("x,y\n1,2\n3,NaN\n", None, "column 'y' of .*, line 3, is NaN: remove or impute"),
        ("x,y\n-inf,2\n", None, "column 'x' of .*, line 2, is -inf"),
        ("id,x,y\ns1,1,1\n", None, "column 'id' of .*, line 2, is 's1', not a number. Remove the column"),
        ("x,y\n1,M\n2,B\n", None, "column 'y' of .* is 'M', not a number.*your choice: replace them by -1"),
        ("x;y\n1,5;1\n", None, "column 'x' of .* is '1,5': write numbers with a decimal point"),
        ('x,y\n"1,234.5",1\n', None, "column 'x' of .* is '1,234.5': write numbers .* without commas"),
    ],
)
def test_a_csv_file_that_is_no_table_of_numbers_is_answered_with_the_place(write, text, label, sentence):
    with pytest.raises(ValueError, match=sentence):
        load(write("mine.csv", text), label)


# Any file


def test_a_missing_file_is_answered_with_a_file_that_is_there(tmp_path, write):
    write("genes.csv", "x,y\n1,2\n")
    with pytest.raises(ValueError, match=r"there is no file .*gene.csv. Did you mean '.*genes.csv'\?"):
        load(tmp_path / "gene.csv")
    with pytest.raises(ValueError, match=r"there is no file .*zzzzz\.npz\.$"):
        load(tmp_path / "zzzzz.npz")
    with pytest.raises(ValueError, match=r"There is no directory .*nowhere either"):
        load(tmp_path / "nowhere" / "genes.csv")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    with pytest.raises(ValueError, match=r"loop.csv is a link that leads to no file"):
        load(tmp_path / "loop.csv")


def test_a_file_that_may_not_be_read_is_a_sentence(write, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", "mine")

    path = write("mine.csv", "x,y\n1,2\n")
    monkeypatch.setattr(type(path), "open", refused)  # root may read everything
    for read in (load, gene_expression):
        with pytest.raises(ValueError, match=r"mine.csv is damaged or cannot be read: Permission denied\.$"):
            read(path)


def test_a_directory_and_an_unknown_ending_are_refused(tmp_path, write):
    with pytest.raises(ValueError, match="is a directory"):
        load(tmp_path)
    with pytest.raises(
        ValueError, match=r"unknown file ending.*'.npx'. Did you mean '.np[yz]'.*\.npz, \.npy, \.csv"
    ):
        load(write("mine.npx", "1"))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("text.npz", "x,y\n1,2\n", "is not a valid .npz archive"),
        ("empty.npz", "", "is empty"),
        ("text.npy", "x,y\n1,2\n", "is not a valid .npy file"),
        ("empty.npy", "", "is empty"),
        ("header.npy", b"\x93NUMPY\x01\x00", "cannot be read"),
        ("picture.csv", b"\x89PNG\r\n\x1a\n\x00\x00\xff", "is not a text file in UTF-8"),
        ("latin.csv", "größe,y\n1,2\n".encode("latin-1"), "is not a text file in UTF-8"),
        ("late.csv", b"x,y\n" + 5000 * b"1,2\n" + b"\xff,2\n", "is not a text file in UTF-8"),
        ("nul.csv", b"x,y\n1,2\n\x00,2\n", "column 'x' of .*, line 3, is '.x00', not a number"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused(write, name, content, sentence):
    with pytest.raises(ValueError, match=sentence):
        load(write(name, content))


def test_a_npy_file_cut_short_is_refused(tmp_path, write):
    np.save(tmp_path / "mine.npy", X)
    with pytest.raises(ValueError, match="cannot be read"):
        load(write("short.npy", (tmp_path / "mine.npy").read_bytes()[:-8]))
