"""Small files of the official formats, and a web server that misbehaves as told."""

import gzip
import hashlib
import threading
import time
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from multipartite.experiments.data.catalogue import CATALOGUE


def idx(array):
    shape = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return gzip.compress(bytes([0, 0, 8, array.ndim]) + shape + array.astype(np.uint8).tobytes(), mtime=0)


def mat(images, labels):
    """SVHN's layout: X of 32 x 32 x 3 x N from images of N x 3 x 32 x 32, y with 10 for zero."""
    import io

    from scipy.io import savemat

    file = io.BytesIO()
    y = np.where(labels == 0, 10, labels).astype(np.uint8)[:, None]
    savemat(file, {"X": images.transpose(2, 3, 1, 0), "y": y}, do_compression=True)
    return file.getvalue()


def images_and_labels(name, part, n=40, classes=10):
    """Random images of a data set's shape and labels that hold every one of the first classes."""
    random = np.random.default_rng([len(name), part == "train"])
    return random.integers(0, 256, (n, *CATALOGUE[name].shape), np.uint8), np.arange(n) % classes


def official(name, **sizes):
    """Bytes of every file of a tiny data set in the official format, by path."""
    train, test = (images_and_labels(name, part, **sizes) for part in ("train", "test"))
    if name in ("mnist", "fashion-mnist"):
        arrays = [train[0][:, 0], train[1], test[0][:, 0], test[1]]
        return {path: idx(array) for path, array in zip(CATALOGUE[name].files, arrays, strict=True)}
    if name == "svhn":
        return {"svhn/train_32x32.mat": mat(*train), "svhn/test_32x32.mat": mat(*test)}
    marks = 2 if name == "cifar100" else 1
    train_files = len(CATALOGUE[name].files) - 1
    blobs = []
    for images, labels in [*zip(*(np.split(a, train_files) for a in train), strict=True), test]:
        columns = [np.full((len(labels), 1), 99)] * (marks - 1) + [
            labels[:, None],
            images.reshape(len(labels), -1),
        ]
        blobs.append(np.concatenate(columns, axis=1).astype(np.uint8).tobytes())
    return dict(zip(CATALOGUE[name].files, blobs, strict=True))


def lay_out(name, folder, monkeypatch, sizes=None, **changes):
    """Write a tiny data set under `folder` and put its hashes into the registry."""
    blobs = official(name, **sizes or {})
    for path, blob in blobs.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(blob)
    return register(name, blobs, monkeypatch, **changes)


def register(name, blobs, monkeypatch, **changes):
    """Put the hashes of `blobs`, and other changes, into the registry's entry."""
    hashes = {path: hashlib.sha256(blob).hexdigest() for path, blob in blobs.items()}
    source = replace(CATALOGUE[name], files=hashes, **changes)
    monkeypatch.setitem(CATALOGUE._entries, name, source)
    return source


@dataclass
class Server:
    """Serve `pages` on loopback; `cuts` connections break half-way, and each request is noted."""

    pages: dict[str, bytes]
    cuts: int = 0
    ranges: bool = True
    delay: float = 0.0
    shift: int = 0  # a range begins so many bytes late
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def __enter__(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                outer.answer(self)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_port}/"

    def answer(self, request):
        wanted = request.headers.get("Range")
        self.asked.append((request.path.lstrip("/"), wanted))
        time.sleep(self.delay)
        page = self.pages.get(request.path.lstrip("/"))
        if page is None:
            request.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) + self.shift if wanted and self.ranges else 0
        if start >= len(page) > 0:
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(page)}")
            request.end_headers()
            return
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(page) - 1}/{len(page)}")
        request.send_header("Content-Length", str(len(page) - start))
        request.end_headers()
        body = page[start:]
        if self.cuts:
            self.cuts -= 1
            body = body[: len(body) // 2]
        request.wfile.write(body)
