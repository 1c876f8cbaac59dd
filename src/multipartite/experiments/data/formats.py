"""Readers of the official file formats, from bytes that were checked already; nothing is unpickled."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Any

import numpy as np

from multipartite.errors import InputError

__all__ = ["read_cifar", "read_idx", "read_svhn"]

Array = np.ndarray[Any, np.dtype[np.uint8]]
Index = np.ndarray[Any, np.dtype[np.int64]]


def read_idx(name: str, blob: bytes) -> Array:
    """Read a gzipped IDX file of unsigned bytes (MNIST and its relatives).

    The header is two zero bytes, the type (8 for unsigned bytes), the number of dimensions, then every
    dimension as a big-endian 32-bit integer; the values follow, the last dimension fastest.

    Examples
    --------
    >>> header = bytes([0, 0, 8, 2]) + (2).to_bytes(4, "big") + (3).to_bytes(4, "big")
    >>> read_idx("tiny.gz", gzip.compress(header + bytes(range(6)))).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    try:
        data = gzip.decompress(blob)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{name} is not a whole gzip file ({error}); delete it and get it again") from error
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise InputError(f"{name} must be an IDX file of unsigned bytes, it begins with {data[:4]!r}")
    start = 4 + 4 * data[3]
    shape = np.frombuffer(data[4:start], ">u4").astype(int)
    if len(shape) != data[3] or len(data) - start != shape.prod():
        raise InputError(f"{name} announces {shape.tolist()} values and holds {len(data) - start} bytes")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def read_cifar(name: str, blob: bytes, *, label_bytes: int = 1) -> tuple[Array, Array]:
    """Read a CIFAR binary file: per image its label bytes, then the red, green and blue planes, 32 x 32 each.

    CIFAR-100 has two label bytes, the coarse and the fine one; the last is the label here.

    Examples
    --------
    >>> images, labels = read_cifar("tiny.bin", bytes([3, 7]) + bytes(3072), label_bytes=2)
    >>> images.shape, labels.tolist()
    ((1, 3, 32, 32), [7])
    """
    size = label_bytes + 3072
    if not blob or len(blob) % size:
        raise InputError(f"{name} must hold whole records of {size} bytes, it has {len(blob)} bytes")
    records = np.frombuffer(blob, np.uint8).reshape(-1, size)
    return records[:, label_bytes:].reshape(-1, 3, 32, 32), records[:, label_bytes - 1]


def read_svhn(name: str, blob: bytes) -> tuple[Array, Array]:
    """Read a MATLAB 5 file of SVHN's cropped digits: ``X`` 32 x 32 x 3 x N, ``y`` from 1 to 10 (zero).

    Examples
    --------
    >>> from scipy.io import savemat
    >>> file = io.BytesIO()
    >>> savemat(file, {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[10], [4]], np.uint8)})
    >>> images, labels = read_svhn("tiny.mat", file.getvalue())
    >>> images.shape, labels.tolist()
    ((2, 3, 32, 32), [0, 4])
    """
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        file: Any = io.BytesIO(blob)  # read as well as a path is, though the stubs of scipy know only paths
        content = loadmat(file, variable_names=["X", "y"])
    except (MatReadError, ValueError, TypeError, OSError, EOFError, zlib.error, NotImplementedError) as error:
        raise InputError(f"{name} is not a readable MATLAB 5 file ({error}); delete it and get it again") from error
    X, y = content.get("X"), content.get("y")
    if X is None or y is None or X.dtype != np.uint8 or X.shape != (32, 32, 3, y.size):
        raise InputError(f"{name} must hold X, uint8 of 32 x 32 x 3 x N, and y with N labels, as SVHN's files do")
    if y.min() < 1 or y.max() > 10:
        raise InputError(f"{name} must hold labels from 1 to 10, it has {y.min()} to {y.max()}")
    return np.ascontiguousarray(X.transpose(3, 2, 0, 1)), (y.ravel() % 10).astype(np.uint8)
