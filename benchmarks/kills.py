"""What is left of a download or a training run that is killed? `python -m benchmarks.kills` kills 20 each.

A server on loopback serves MNIST slowly; `rankfall data get mnist` is killed (-9) at a random moment, again
and again on one cache. After each kill every file in place must be whole; in the end an undisturbed `get`
must give the bytes of the official files. Needs these .gz files in the folder `mnist` of RANKFALL_TEST_DATA.

A training run with a checkpoint is killed in the same way and started again, until it is through; its records
and weights must be, bit for bit, those of a run that nobody disturbed.
"""

import gzip
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jax
import numpy as np

import rankfall as rf
from benchmarks.table import Row, table
from benchmarks.timing import say
from rankfall import dynamics

ROOT = Path(__file__).parents[1]
EPOCHS = 30
SAMPLES = Path(os.environ.get("RANKFALL_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data")
PIECES = 40


@contextmanager
def slow_server(files: dict[str, bytes], seconds: float) -> Iterator[str]:
    """The address of a server of these files, all of which together take so many seconds."""
    pause = seconds / (PIECES * sum(len(content) > PIECES for content in files.values()))

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = files[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            size = len(content) // PIECES + 1
            try:
                for start in range(0, len(content), size):
                    self.wfile.write(content[start : start + size])
                    time.sleep(pause)
            except OSError:
                self.close_connection = True  # the other side was killed

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def wrong_files(cache: Path, right: dict[str, bytes]) -> list[str]:
    """The files in place that are not, byte for byte, what they should be."""
    found = [path for path in (cache / "mnist").rglob("*") if path.is_file()]
    return [path.name for path in found if path.read_bytes() != right.get(path.name)]


def download_kills(
    times: int = 20, seconds: float = 1.0, seed: int = 0, samples: Path = SAMPLES
) -> dict[str, int]:
    """Kill so many downloads under way; how many were, and how many files were ever wrong: none should."""
    served = {f"/mnist/{path.name}": path.read_bytes() for path in sorted((samples / "mnist").glob("*.gz"))}
    if len(served) != 4:
        raise ValueError(f"there are no four .gz files of MNIST in {samples / 'mnist'}.")
    right = {Path(name).stem: gzip.decompress(content) for name, content in served.items()}
    draw = random.Random(seed)
    died = wrong = 0
    with tempfile.TemporaryDirectory() as folder, slow_server(served, seconds) as address:
        cache = Path(folder, "cache")
        settings = {"RANKFALL_DATA": str(cache), "RANKFALL_MIRROR": address, "NO_PROXY": "127.0.0.1"}
        get = [sys.executable, "-m", "rankfall", "data", "get", "mnist"]
        while died < times:  # one that was through already does not count
            before = set(cache.glob(".incoming-*"))
            process = subprocess.Popen(get, env=os.environ | settings, stdout=subprocess.DEVNULL)
            while process.poll() is None and not set(cache.glob(".incoming-*")) - before:
                time.sleep(0.01)  # Python is starting, and nothing is under way
            time.sleep(draw.uniform(0, 1.2 * seconds))
            process.kill()
            died += process.wait() != 0
            wrong += len(wrong_files(cache, right))
            for place in (cache / "mnist").glob("*"):  # or the next ones would have nothing left to fetch
                if draw.random() < 0.5:
                    place.unlink()
        subprocess.run(get, env=os.environ | settings, check=True, stdout=subprocess.DEVNULL)
        kept = sorted(path.name for path in cache.rglob("*") if path.is_file() and path.name != ".lock")
        leftovers = list(cache.glob(".incoming-*"))
        wrong += len(wrong_files(cache, right)) + (kept != sorted(right)) + len(leftovers)
    return {"kills": times, "died under way": died, "wrong files": wrong}


def train(checkpoint: str | None) -> rf.Trajectory:
    """SGD on numbers of the kind of images, some seconds long, with a checkpoint after every piece."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5000, 200), dtype=np.float32)
    data = rf.Data(x, (x[:, 0] > 0).astype(int), "signs", rf.Data(x[:500], (x[:500, 0] > 0).astype(int)))
    make = rf.Network.constant_second_layer
    starts = [make((200, 400, 2), 0.0, value, seed=1).astype(np.float32) for value in (1e-5, 1e-3)]
    dynamics.checkpoint.EVERY, dynamics.march.PAUSE = 0.0, 0.02
    measures = ["stable_rank", "test_accuracy"]
    options = {"batch": 50, "epochs": EPOCHS, "measures": measures, "show": False}
    return rf.descent(starts, data, "cross_entropy", 0.1, checkpoint=checkpoint, **options)


def training_kills(times: int = 20, seed: int = 0) -> dict[str, int]:
    """Kill a training run so many times; how often it died under way, and how many numbers came out wrong."""
    draw, died, done = random.Random(seed), 0, []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.nc")
        for _ in range(times):
            process = subprocess.Popen([sys.executable, "-m", "benchmarks.kills", str(path)], cwd=ROOT)
            before = path.stat().st_mtime_ns if path.exists() else 0
            while process.poll() is None and (path.stat().st_mtime_ns if path.exists() else 0) == before:
                time.sleep(0.01)  # it is starting, or has not come further than the one before
            time.sleep(draw.uniform(0, 0.8))
            process.kill()
            died += process.wait() != 0
            done.append(rf.Trajectory.load(path).statistics.steps)  # whole, whenever it is read
        say(f"killed after {', '.join(map(str, done))} steps")
        resumed, whole = train(str(path)), train(None)
        left = [each.name for each in Path(folder).iterdir() if each != path]
    same = [resumed.dataset.identical(whole.dataset), resumed.settings == whole.settings, not left]
    pairs = zip(jax.tree.leaves(resumed.networks), jax.tree.leaves(whole.networks), strict=True)
    same += [np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs]
    return {"kills": times, "died under way": died, "wrong": same.count(False)}


def bench() -> list[Row]:
    rows = []
    for name, kill in (("download", download_kills), ("training", training_kills)):
        try:
            kills, died, wrong = kill().values()
        except ValueError as error:
            say(f"{name} is left out: {error}")
            continue
        what = f"{name}: kill -9 at a random moment, {kills} times; what is left is wrong in so many places"
        every = died == kills
        rows.append(
            Row(f"kills, {name}", f"{wrong} wrong", f"{died} died", wrong, what, at_most=0, also=every)
        )
    return rows


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(sys.argv[1])
    else:
        print(table(bench()))
