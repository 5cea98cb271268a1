import errno
import gzip
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

import rankfall as rf
from rankfall.data import _catalogue as catalogue
from rankfall.data import _download as download
from rankfall.data import _store as store

AUTISM = "/autism/autism.csv"


def in_place(cache):
    """The files that a loader could see, and the leftovers that nobody should."""
    return sorted(
        str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file() and path.name != ".lock"
    )


class Mirror(ThreadingHTTPServer):
    """A server of `files` on loopback. `faults` holds what goes wrong with the next requests of a path."""

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
def mirror(monkeypatch, autism):
    """A mirror that has the autism data."""
    server = Mirror()
    server.files[AUTISM] = autism.read_bytes()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("RANKFALL_MIRROR", server.address)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    served = [  # nothing here may leave the machine
        replace(each, mirrors=(f"{server.address}/second/{each.name}/",) if each.downloads else ())
        for each in catalogue.real_sets().values()
    ]
    with catalogue.listing(*served):
        yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def mnist_mirror(mirror, mnist):
    """A mirror that has MNIST, too."""
    mirror.files |= {f"/mnist/{name}": path.read_bytes() for name, path in mnist.items()}
    return mirror


# Fetching


def test_mnist_comes_as_the_official_bytes_and_only_once(cache, mnist_mirror, mnist):
    assert rf.data.fetch("mnist") == cache / "mnist"
    assert rf.data.available("mnist")
    for path in mnist.values():
        assert (cache / "mnist" / path.stem).read_bytes() == gzip.decompress(path.read_bytes())
    assert len(in_place(cache)) == 4
    rf.data.fetch("mnist")
    assert set(mnist_mirror.asked.values()) == {1}


@pytest.mark.parametrize(
    "fault", ["reset", "short", "short_without_a_length", "wrong", "page", "endless", "missing"]
)
def test_what_goes_wrong_once_is_tried_again(cache, mirror, fault):
    mirror.faults[AUTISM] = [fault]
    rf.data.fetch("autism")
    assert rf.data.autism().n == 104
    assert mirror.asked[AUTISM] == 2
    assert not list(cache.glob(".incoming-*"))


def test_the_next_mirror_serves_where_the_first_does_not(cache, mirror, autism):
    mirror.faults[AUTISM] = ["reset", "wrong"]
    mirror.files[f"/second{AUTISM}"] = autism.read_bytes()
    rf.data.fetch("autism")
    assert mirror.asked == {AUTISM: 2, f"/second{AUTISM}": 1}


def test_a_redirection_is_followed_and_its_content_verified(cache, mirror):
    mirror.faults[AUTISM] = ["elsewhere"]
    rf.data.fetch("autism")
    assert mirror.asked[AUTISM + "?again"] == 1


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


def test_an_endless_download_is_cut_at_the_size_of_the_file(cache, mirror):
    mirror.faults[AUTISM] = ["endless"] * 2
    with pytest.raises(ValueError, match="it sends more than the 7,041 bytes of the file"):
        rf.data.fetch("autism")
    assert in_place(cache) == []


def test_without_a_network_the_sentence_says_how_to_import(cache, mirror, monkeypatch):
    monkeypatch.setenv("RANKFALL_MIRROR", "http://127.0.0.1:9")
    unreachable = replace(catalogue.real_set("mnist"), mirrors=("http://127.0.0.1:9/",))
    with catalogue.listing(unreachable), pytest.raises(ValueError, match="no connection") as refusal:
        rf.data.fetch("mnist")
    assert "`rankfall data import PATH` takes it" in str(refusal.value)
    assert "t10k-labels-idx1-ubyte.gz" in str(refusal.value)
    assert in_place(cache) == []


def test_a_mirror_that_is_no_address_is_a_mistake(cache, monkeypatch):
    monkeypatch.setenv("RANKFALL_MIRROR", "/data/mirror")
    with pytest.raises(ValueError, match="RANKFALL_MIRROR must be an address like https://"):
        rf.data.fetch("autism")


def test_an_address_that_cannot_be_parsed_is_a_mistake_in_the_variable(cache, monkeypatch):
    monkeypatch.setenv("RANKFALL_MIRROR", "http://[::1/data")
    with pytest.raises(
        ValueError, match=r"RANKFALL_MIRROR must be an address like .* not 'http://\[::1/data'"
    ):
        rf.data.fetch("autism")


@pytest.mark.parametrize(
    "address", ["http://me:secret@127.0.0.1:9/x", "ftp://me:secret@x", "me:secret@x", "http://me:se/cret@[x"]
)
def test_a_password_in_an_address_is_never_told(cache, mirror, monkeypatch, address):
    monkeypatch.setenv("RANKFALL_MIRROR", address)
    with pytest.raises(ValueError, match=r"could not be fetched|RANKFALL_MIRROR must be") as refusal:
        rf.data.fetch("autism")
    assert "cret" not in str(refusal.value)


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


def test_an_archive_is_unpacked_by_content_and_writes_nowhere_else(cache, mirror):
    batches = {f"data_batch_{i}.bin": bytes([i]) * 3073 for i in range(1, 4)}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, content in {"../../escaped": b"x", **{f"/root/{k}": v for k, v in batches.items()}}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    packed = archive.getvalue()
    tiny = replace(
        catalogue.real_set("cifar10"),
        files=tuple(known_file(name, content) for name, content in batches.items()),
        downloads=(known_file("cifar-10-binary.tar.gz", packed),),
    )
    mirror.files["/cifar10/cifar-10-binary.tar.gz"] = packed
    with catalogue.listing(tiny):
        rf.data.fetch("cifar10")
    assert in_place(cache) == [f"cifar10/{name}" for name in batches]
    assert not list(cache.parent.rglob("escaped"))


def known_file(name, content):
    return catalogue.File(name, len(content), catalogue.checksum(content, "sha256"))


GET = [sys.executable, "-m", "rankfall", "data", "get"]


def test_two_processes_that_fetch_at_once_share_one_download(cache, mnist_mirror, capsys):
    mnist_mirror.pause = 0.1
    other = subprocess.Popen([*GET, "mnist"], stdout=subprocess.PIPE)
    while other.poll() is None and not mnist_mirror.asked:
        time.sleep(0.01)
    assert download.bring(catalogue.real_set("mnist")) == 0
    assert capsys.readouterr().err == f"Another process is writing to {cache}: waiting for it.\n"
    assert b"mnist: fetched and verified" in other.communicate(timeout=60)[0]
    assert other.returncode == 0
    assert len(in_place(cache)) == 4
    assert set(mnist_mirror.asked.values()) == {1}


@pytest.mark.slow
def test_a_killed_download_leaves_nothing_that_is_used(monkeypatch, mnist):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from benchmarks import kills

    samples = mnist["t10k-labels-idx1-ubyte.gz"].parents[1]
    killed = kills.download_kills(times=2, seconds=0.4, samples=samples)
    assert killed == {"kills": 2, "died under way": 2, "wrong files": 0}


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


def test_a_full_disk_is_a_sentence_and_leaves_nothing(cache, autism, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        ValueError, match=r"cache cannot be written to \(No space left on device\): make room"
    ):
        rf.data.take(autism)
    assert in_place(cache) == []


def test_a_cache_that_is_read_only_is_a_sentence(cache, autism, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", str(cache / ".incoming-x"))

    monkeypatch.setattr(tempfile, "mkdtemp", refused)  # root may write everywhere
    with pytest.raises(ValueError, match=r"cannot be written to \(Permission denied\).* RANKFALL_DATA"):
        rf.data.take(autism)


@pytest.mark.parametrize("way", ["autism", "autism/autism.csv"])
def test_what_is_in_the_place_of_a_file_is_named(cache, autism, way):
    (cache / way).parent.mkdir(parents=True)
    if way == "autism":
        (cache / way).write_text("")
    else:
        (cache / way).mkdir()
    assert not rf.data.available("autism")
    with pytest.raises(
        ValueError, match=r"autism.csv cannot be read \((Is|Not) a directory\): `rankfall data"
    ):
        rf.data.autism()
    with pytest.raises(ValueError, match=rf"{way} cannot be written to .* remove what is in the way"):
        rf.data.take(autism)


def test_a_cached_file_that_cannot_be_read_is_replaced_by_an_import(cache, autism, monkeypatch):
    rf.data.take(autism)
    kept, read = cache / "autism" / "autism.csv", Path.read_bytes

    def refused(path):
        if path == kept:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refused)  # root may read everything
    with pytest.raises(
        ValueError, match=r"autism.csv cannot be read \(Permission denied\): `rankfall data get"
    ):
        rf.data.autism()
    before = kept.stat().st_ino
    rf.data.take(autism)
    assert kept.stat().st_ino != before


# Reading


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
