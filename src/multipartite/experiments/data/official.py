"""The data sets that others made: the formats of their files, read without unpickling anything, hashes and mirrors."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from multipartite.errors import InputError
from multipartite.experiments.data.source import Array, Parts, Source

__all__ = [
    "DIGITS",
    "OFFICIAL",
    "read_cifar",
    "read_cifar_files",
    "read_digits",
    "read_idx",
    "read_idx_files",
    "read_svhn",
    "read_svhn_files",
]

_DIGITS_FILE = ("datasets", "data", "digits.csv.gz")  # inside scikit-learn
_DIGITS_TEST = 360  # a fifth of the 1797 images


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


def read_digits(files: Mapping[str, bytes], seed: int) -> Parts:
    """Scale scikit-learn's digits from 0 to 16 up to 0 to 255, and split, always in the same way, whatever the seed.

    Examples
    --------
    >>> train_images, train_labels, test_images, test_labels = read_digits({}, 0)
    >>> train_images.shape, test_images.shape, int(train_images.max())
    ((1437, 1, 8, 8), (360, 1, 8, 8), 255)
    """
    import torch

    from multipartite.experiments.data.dataset import stratified

    values, labels = _digits_table()
    images = np.rint(values * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    test, train = (rows.numpy() for rows in stratified(torch.from_numpy(labels), _DIGITS_TEST, seed=0))
    return images[train], labels[train], images[test], labels[test]


def _digits_table() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Values and labels off scikit-learn's own file: to import its data sets takes longer than a short run."""
    home = find_spec("sklearn")
    path = Path(home.origin or "").parent.joinpath(*_DIGITS_FILE) if home else Path()
    if path.is_file():
        table = np.loadtxt(path, delimiter=",")
        return table[:, :-1], table[:, -1].astype(np.int64)
    from sklearn.datasets import load_digits  # another release may keep it elsewhere

    values, labels = load_digits(return_X_y=True)
    return values, labels


def read_idx_files(files: Mapping[str, bytes], seed: int) -> Parts:
    """Read the four files of MNIST and its relatives; nothing is left to the seed."""
    blobs = {path.rpartition("/")[2]: read_idx(path, blob) for path, blob in files.items()}
    images, labels = "images-idx3-ubyte.gz", "labels-idx1-ubyte.gz"
    train = blobs[f"train-{images}"][:, None], blobs[f"train-{labels}"]
    return *train, blobs[f"t10k-{images}"][:, None], blobs[f"t10k-{labels}"]


def read_cifar_files(files: Mapping[str, bytes], seed: int, *, label_bytes: int) -> Parts:
    """Read the batches of CIFAR in their order; the test file has ``test`` in its name."""
    parts = {path: read_cifar(path, blob, label_bytes=label_bytes) for path, blob in files.items()}
    train = [part for path, part in parts.items() if "test" not in path.rpartition("/")[2]]
    (test,) = [part for path, part in parts.items() if "test" in path.rpartition("/")[2]]
    images, labels = (np.concatenate(arrays) for arrays in zip(*train, strict=True))
    return images, labels, *test


def read_svhn_files(files: Mapping[str, bytes], seed: int) -> Parts:
    """Read the training and the test file of SVHN."""
    train, test = (read_svhn(path, blob) for path, blob in sorted(files.items(), reverse=True))
    return *train, *test


def _words(line: str) -> tuple[str, ...]:
    return tuple(word.replace("_", " ") for word in line.split())


DIGITS = tuple("0123456789")
_CLOTHES = _words("T-shirt/top Trouser Pullover Dress Coat Sandal Shirt Sneaker Bag Ankle_boot")
_THINGS = _words("airplane automobile bird cat deer dog frog horse ship truck")
_HUNDRED = _words(
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly "
    "camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup "
    "dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower "
    "leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid "
    "otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray "
    "road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar "
    "sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle "
    "wardrobe whale willow_tree wolf woman worm"
)
_MNIST = {
    "mnist/train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "mnist/train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "mnist/t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "mnist/t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
_FASHION = {
    f"fashion-mnist/{name}": digest
    for name, digest in {
        "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    }.items()
}
_CIFAR10 = {
    f"cifar10/cifar-10-batches-bin/{name}.bin": digest
    for name, digest in {
        "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    }.items()
}
_CIFAR100 = {
    "cifar100/cifar-100-binary/train.bin": "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
    "cifar100/cifar-100-binary/test.bin": "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
}
# As other loaders publish them; this project could not recompute these two (docs/data.md).
_SVHN = {
    "svhn/train_32x32.mat": "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
    "svhn/test_32x32.mat": "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
}
_CIFAR10_ARCHIVE = (
    "cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)
_CIFAR100_ARCHIVE = (
    "cifar-100-binary.tar.gz",
    "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
)
_MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
)
_FASHION_MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
)
_TORONTO = ("https://www.cs.toronto.edu/~kriz/", "https://www.cs.utoronto.ca/~kriz/")
_STANFORD = ("http://ufldl.stanford.edu/housenumbers/",)

# fmt: off
OFFICIAL = (
    Source("digits", "handwritten digits inside scikit-learn", (1, 8, 8), (1437, 360), DIGITS, read_digits),
    Source("mnist", "handwritten digits", (1, 28, 28), (60000, 10000), DIGITS,
           read_idx_files, _MNIST, _MNIST_MIRRORS),
    Source("fashion-mnist", "pieces of clothing", (1, 28, 28), (60000, 10000), _CLOTHES,
           read_idx_files, _FASHION, _FASHION_MIRRORS, flips=True),
    Source("cifar10", "small colour photographs", (3, 32, 32), (50000, 10000), _THINGS,
           partial(read_cifar_files, label_bytes=1), _CIFAR10, _TORONTO, _CIFAR10_ARCHIVE, flips=True),
    Source("cifar100", "small colour photographs, fine labels", (3, 32, 32), (50000, 10000), _HUNDRED,
           partial(read_cifar_files, label_bytes=2), _CIFAR100, _TORONTO, _CIFAR100_ARCHIVE, flips=True),
    Source("svhn", "house numbers in street photographs", (3, 32, 32), (73257, 26032), DIGITS,
           read_svhn_files, _SVHN, _STANFORD),
)
# fmt: on
