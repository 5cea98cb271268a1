import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import rankfall as rf
from rankfall.data import catalogue, download, recognise, store

SAMPLES = Path(os.environ.get("RANKFALL_TEST_DATA") or Path(__file__).parents[3] / "shared" / "data")
needs_samples = pytest.mark.skipif(
    not SAMPLES.is_dir(),
    reason=f"the sample data are not in {SAMPLES}: set RANKFALL_TEST_DATA to their folder",
)
AUTISM = "/autism/autism.csv"


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKFALL_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


def in_place(cache):
    """The files that a loader could see, and the leftovers that nobody should."""
    return sorted(
        str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file() and path.name != ".lock"
    )


class Mirror(ThreadingHTTPServer):
    """The sample data on loopback. `faults` holds what goes wrong with the next requests of a path."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults, self.asked, self.files, self.pause = {}, Counter(), {}, 0.0
        self.address = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_):
        pass  # a connection that the test wanted to break


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked[self.path] += 1
        content = self.server.files.get(self.path)
        if content is None:
            file = SAMPLES / self.path.strip("/")
            content = file.read_bytes() if file.is_file() else None
        waiting = self.server.faults.get(self.path, [])
        getattr(self, waiting.pop(0) if waiting else "right" if content is not None else "missing")(content)

    def head(self, code=200, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def right(self, content):
        self.head(Content_Length=len(content))
        for start in range(0, len(content), 2**20):
            self.wfile.write(content[start : start + 2**20])
            time.sleep(self.server.pause)

    def missing(self, content):
        self.send_error(404)

    def reset(self, content):
        self.connection.close()

    def short(self, content):
        self.head(Content_Length=len(content))
        self.wfile.write(content[: len(content) // 2])
        self.close_connection = True

    def short_without_a_length(self, content):
        self.head()
        self.wfile.write(content[: len(content) // 2])

    def wrong(self, content):
        self.right(bytes([content[0] ^ 1]) + content[1:])

    def page(self, content):
        self.right(b"<html>Please log in to the network.</html>")

    def endless(self, content):
        self.head()
        for _ in range(1000):
            self.wfile.write(bytes(2**16))

    def elsewhere(self, content):
        self.head(302, Location=self.path + "?again", Content_Length=0)
        self.server.files[self.path + "?again"] = content

    def log_message(self, *_):
        pass


@pytest.fixture
def mirror(monkeypatch):
    server = Mirror()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("RANKFALL_MIRROR", server.address)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name, each in catalogue.CATALOGUE.items():  # nothing here may leave the machine
        mirrors = (f"{server.address}/second/{name}/",) if each.downloads else ()
        monkeypatch.setitem(catalogue.CATALOGUE, name, replace(each, mirrors=mirrors))
    yield server
    server.shutdown()
    server.server_close()


# Fetching


@needs_samples
def test_mnist_comes_as_the_official_bytes_and_only_once(cache, mirror):
    assert rf.data.fetch("mnist") == cache / "mnist"
    assert rf.data.available("mnist")
    for path in (SAMPLES / "mnist").glob("*.gz"):
        assert (cache / "mnist" / path.stem).read_bytes() == gzip.decompress(path.read_bytes())
    assert len(in_place(cache)) == 4
    rf.data.fetch("mnist")
    assert set(mirror.asked.values()) == {1}


@needs_samples
@pytest.mark.parametrize(
    "fault", ["reset", "short", "short_without_a_length", "wrong", "page", "endless", "missing"]
)
def test_what_goes_wrong_once_is_tried_again(cache, mirror, fault):
    mirror.faults[AUTISM] = [fault]
    rf.data.fetch("autism")
    assert rf.data.autism().n == 104
    assert mirror.asked[AUTISM] == 2
    assert not list(cache.glob(".incoming-*"))


@needs_samples
def test_the_next_mirror_serves_where_the_first_does_not(cache, mirror):
    mirror.faults[AUTISM] = ["reset", "wrong"]
    mirror.files[f"/second{AUTISM}"] = (SAMPLES / "autism" / "autism.csv").read_bytes()
    rf.data.fetch("autism")
    assert mirror.asked == {AUTISM: 2, f"/second{AUTISM}": 1}


@needs_samples
def test_a_redirection_is_followed_and_its_content_verified(cache, mirror):
    mirror.faults[AUTISM] = ["elsewhere"]
    rf.data.fetch("autism")
    assert mirror.asked[AUTISM + "?again"] == 1


@needs_samples
@pytest.mark.parametrize("fault", ["wrong", "page", "short_without_a_length"])
def test_wrong_bytes_are_kept_aside_and_never_used(cache, mirror, fault):
    mirror.faults[AUTISM] = [fault] * 2
    with pytest.raises(ValueError, match="could not be fetched") as refusal:
        rf.data.fetch("autism")
    assert f"it is not used, and kept aside as {cache / 'damaged' / 'autism-autism.csv'}" in str(
        refusal.value
    )
    assert "404" in str(refusal.value)  # the second mirror has nothing
    assert in_place(cache) == ["damaged/autism-autism.csv"]
    assert not rf.data.available("autism")
    assert not list(cache.glob(".incoming-*"))


@needs_samples
def test_an_endless_download_is_cut_at_the_size_of_the_file(cache, mirror):
    mirror.faults[AUTISM] = ["endless"] * 2
    with pytest.raises(ValueError, match="it sends more than the 7,041 bytes of the file"):
        rf.data.fetch("autism")
    assert in_place(cache) == []


def test_without_a_network_the_sentence_says_how_to_import(cache, mirror, monkeypatch):
    monkeypatch.setenv("RANKFALL_MIRROR", "http://127.0.0.1:9")
    monkeypatch.setitem(
        catalogue.CATALOGUE, "mnist", replace(catalogue.CATALOGUE["mnist"], mirrors=("http://127.0.0.1:9/",))
    )
    with pytest.raises(ValueError, match="no connection") as refusal:
        rf.data.fetch("mnist")
    assert "`rankfall data import PATH` takes it" in str(refusal.value)
    assert "t10k-labels-idx1-ubyte.gz" in str(refusal.value)
    assert in_place(cache) == []


def test_a_mirror_that_is_no_address_is_a_mistake(cache, monkeypatch):
    monkeypatch.setenv("RANKFALL_MIRROR", "/data/mirror")
    with pytest.raises(ValueError, match="RANKFALL_MIRROR must be an address like https://"):
        rf.data.fetch("autism")


@pytest.mark.parametrize("name", ["gordon", "neuroblastoma"])
def test_what_has_no_verified_download_says_where_it_comes_from(cache, name):
    with pytest.raises(
        ValueError, match=r"no download whose content could be verified: .*PATH.* It comes from"
    ):
        rf.data.fetch(name)


@pytest.mark.parametrize(
    ("target", "refused"), [("http://x.org/a", True), ("https://x.org/a", False), ("/a", False)]
)
def test_a_redirection_from_https_to_http_is_refused(target, refused):
    answer = SimpleNamespace(url="https://x.org/", headers={"location": target}, is_redirect=True)
    if refused:
        with pytest.raises(download._Refused, match="redirects from https to http://"):
            download._no_downgrade(answer)
    else:
        download._no_downgrade(answer)


def test_an_archive_is_unpacked_by_content_and_writes_nowhere_else(cache, mirror, monkeypatch):
    batches = {f"data_batch_{i}.bin": bytes([i]) * 3073 for i in range(1, 4)}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, content in {"../../escaped": b"x", **{f"/root/{k}": v for k, v in batches.items()}}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    packed = archive.getvalue()
    tiny = replace(
        catalogue.CATALOGUE["cifar10"],
        files=tuple(known_file(name, content) for name, content in batches.items()),
        downloads=(known_file("cifar-10-binary.tar.gz", packed),),
    )
    monkeypatch.setitem(catalogue.CATALOGUE, "cifar10", tiny)
    mirror.files["/cifar10/cifar-10-binary.tar.gz"] = packed
    rf.data.fetch("cifar10")
    assert in_place(cache) == [f"cifar10/{name}" for name in batches]
    assert not list(cache.parent.rglob("escaped"))


def known_file(name, content):
    return catalogue.File(name, len(content), catalogue.checksum(content, "sha256"))


GET = [sys.executable, "-m", "rankfall", "data", "get"]


@needs_samples
def test_two_processes_that_fetch_at_once_share_one_download(cache, mirror, capsys):
    mirror.pause = 0.1
    other = subprocess.Popen([*GET, "mnist"], stdout=subprocess.PIPE)
    while other.poll() is None and not mirror.asked:
        time.sleep(0.01)
    rf.data.fetch("mnist")
    assert capsys.readouterr().err == f"Another process is writing to {cache}: waiting for it.\n"
    assert b"mnist: fetched and verified" in other.communicate(timeout=60)[0]
    assert other.returncode == 0
    assert len(in_place(cache)) == 4
    assert set(mirror.asked.values()) == {1}


@needs_samples
def test_a_killed_download_leaves_nothing_that_is_used(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from benchmarks import kills

    monkeypatch.setattr(kills, "SAMPLES", SAMPLES)
    assert kills.download_kills(times=2, seconds=0.4) == {"kills": 2, "died under way": 2, "wrong files": 0}


def test_what_a_dead_process_left_is_removed_by_the_next(cache):
    (cache / ".incoming-dead").mkdir(parents=True)
    (cache / ".incoming-dead" / "half").write_bytes(b"x")
    with store.writing() as incoming:
        assert [path.name for path in cache.glob(".incoming-*")] == [incoming.name]
    assert not list(cache.glob(".incoming-*"))


def test_ctrl_c_leaves_nothing(cache):
    def interrupted():
        with store.writing() as incoming:
            (incoming / "half").write_bytes(b"x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert in_place(cache) == []


def test_a_cache_that_cannot_be_written_to_is_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RANKFALL_DATA", str(tmp_path / "file"))
    with pytest.raises(ValueError, match=r"cannot be written to .* set the environment variable RANKFALL"):
        rf.data.take(tmp_path)


# Reading


@needs_samples
@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (lambda b: b[:-1], "has 7,040 bytes instead of 7,041"),
        (lambda b: b"B" + b[1:], "its checksum is wrong"),
    ],
)
def test_a_file_that_was_altered_in_the_cache_is_refused_and_fetched_again(cache, mirror, harm, sentence):
    rf.data.fetch("autism")
    kept = cache / "autism" / "autism.csv"
    kept.write_bytes(harm(kept.read_bytes()))
    with pytest.raises(ValueError, match=f"{sentence}, so it is not used: `rankfall data get autism`"):
        rf.data.autism()
    rf.data.fetch("autism")
    assert rf.data.autism().n == 104


# Importing


def taken(path):
    return [(found.known[0].name, found.known[1].name) for found in rf.data.take(path) if found.known]


def refusals(path):
    return [found.refusal for found in rf.data.take(path) if not found.known]


LABELS = ("mnist", "t10k-labels-idx1-ubyte")


@needs_samples
def test_mnist_is_taken_in_any_wrapping_whatever_it_is_called(cache, tmp_path):
    official = (SAMPLES / "mnist" / "t10k-labels-idx1-ubyte.gz").read_bytes()
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
    assert [file.name for file in store.missing(catalogue.CATALOGUE["mnist"])][-1] == "t10k-images-idx3-ubyte"


@needs_samples
def test_a_batch_of_cifar10_in_an_npz_file_becomes_its_official_binary_file(cache):
    assert taken(SAMPLES / "cifar10" / "test_batch.npz") == [("cifar10", "test_batch.bin")]
    content = (cache / "cifar10" / "test_batch.bin").read_bytes()
    # The SHA1 that was published with the binary version.
    assert hashlib.sha1(content).hexdigest() == "67eb016db431130d61cd03c7ad570b013799c88c"


@needs_samples
def test_the_same_numbers_in_a_table_are_the_same_set(cache, tmp_path):
    with np.load(SAMPLES / "gene_expression" / "golub.npz") as arrays:
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
        "half.gz": (packed_labels[:-9], "is damaged: Compressed file ended"),
        "labels.gz": (packed_labels, "no known set has"),
        "labels": (gzip.decompress(packed_labels), "is an IDX file, but not of MNIST"),
        "autism.csv": (b"a,b\n1,2\n", "autism.csv of autism has 8 bytes instead of 7,041"),
        "data_batch_1": (b"\x80\x02}q.", "is a pickle, which could run anything and is never opened"),
        "empty": (b"", "no known set has"),
        "broken.zip": (b"PK\x03\x04rest", "is damaged"),
    }
    for name, (content, sentence) in files.items():
        (tmp_path / name).write_bytes(content)
        (refusal,) = refusals(tmp_path / name)
        assert sentence in refusal, name
    assert in_place(cache) == []


def test_an_import_never_unpickles_and_never_opens_a_zip_in_a_zip(cache, tmp_path):
    np.savez(tmp_path / "trap.npz", X=np.eye(2), y=np.array([Trap(), Trap()], dtype=object))
    assert "allow_pickle=False" in refusals(tmp_path / "trap.npz")[0]
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
