"""Every data set by name: its files with their hashes, and the mirrors that hold them."""

from __future__ import annotations

from functools import partial

from multipartite.errors import unknown
from multipartite.experiments.data.clutter import read_cluttered_mnist
from multipartite.experiments.data.digits import read_digits
from multipartite.experiments.data.source import Source, read_cifar_files, read_idx_files, read_svhn_files

__all__ = ["SOURCES", "available", "find"]


def _words(line: str) -> tuple[str, ...]:
    return tuple(word.replace("_", " ") for word in line.split())


_DIGITS = tuple("0123456789")
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
SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source("digits", "handwritten digits inside scikit-learn", (1, 8, 8), (1437, 360), _DIGITS,
               read_digits),
        Source("mnist", "handwritten digits", (1, 28, 28), (60000, 10000), _DIGITS,
               read_idx_files, _MNIST, _MNIST_MIRRORS),
        Source("cluttered-mnist", "MNIST digits among fragments", (1, 40, 40), (60000, 10000), _DIGITS,
               read_cluttered_mnist, _MNIST, _MNIST_MIRRORS),
        Source("fashion-mnist", "pieces of clothing", (1, 28, 28), (60000, 10000), _CLOTHES,
               read_idx_files, _FASHION, _FASHION_MIRRORS),
        Source("cifar10", "small colour photographs", (3, 32, 32), (50000, 10000), _THINGS,
               partial(read_cifar_files, label_bytes=1), _CIFAR10, _TORONTO, _CIFAR10_ARCHIVE),
        Source("cifar100", "small colour photographs, fine labels", (3, 32, 32), (50000, 10000), _HUNDRED,
               partial(read_cifar_files, label_bytes=2), _CIFAR100, _TORONTO, _CIFAR100_ARCHIVE),
        Source("svhn", "house numbers in street photographs", (3, 32, 32), (73257, 26032), _DIGITS,
               read_svhn_files, _SVHN, _STANFORD),
    )
}
# fmt: on


def available() -> list[str]:
    """Names of the data sets.

    Examples
    --------
    >>> available()
    ['digits', 'mnist', 'cluttered-mnist', 'fashion-mnist', 'cifar10', 'cifar100', 'svhn']
    """
    return list(SOURCES)


def find(name: str) -> Source:
    """Look a data set up; an unknown name is an error with the nearest ones."""
    if name not in SOURCES:
        raise unknown("data set", name, available())
    return SOURCES[name]
