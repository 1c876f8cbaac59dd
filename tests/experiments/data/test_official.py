import gzip
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from data_files import idx, mat
from multipartite.errors import InputError
from multipartite.experiments.data import official
from multipartite.experiments.data.official import read_cifar, read_idx, read_svhn


def noise(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def test_idx_round_trip():
    array = noise(5, 4, 3)
    np.testing.assert_array_equal(read_idx("a.gz", idx(array)), array)


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"no gzip", "a.gz is not a whole gzip file"),
        (idx(noise(4, 4))[:-9], "a.gz is not a whole gzip file"),
        (gzip.compress(b"\0\0\x0d\1\0\0\0\1\0"), "a.gz must be an IDX file of unsigned bytes"),
        (gzip.compress(b"\0\0"), "a.gz must be an IDX file of unsigned bytes"),
        (gzip.compress(b"\0\0\x08\1\0\0\0\3\1\2"), r"a.gz announces \[3\] values and holds 2 bytes"),
        (gzip.compress(b"\0\0\x08\3\0\0\0\3"), "a.gz announces"),
    ],
    # gzip writes the hour into its bytes: named by them, the tests would differ from one worker to the next
    ids=["not gzip", "cut short", "not of bytes", "no header", "too few values", "no sizes"],
)
def test_a_bad_idx_file_is_named(blob, message):
    with pytest.raises(InputError, match=message):
        read_idx("a.gz", blob)


def test_cifar_planes_and_labels():
    images = noise(4, 3, 32, 32)
    records = np.concatenate([np.arange(4, dtype=np.uint8)[:, None], images.reshape(4, -1)], axis=1)
    found, labels = read_cifar("b.bin", records.tobytes())
    np.testing.assert_array_equal(found, images)
    assert labels.tolist() == [0, 1, 2, 3]


def test_cifar100_takes_the_fine_label():
    _, labels = read_cifar("b.bin", (bytes([19, 77]) + bytes(3072)) * 2, label_bytes=2)
    assert labels.tolist() == [77, 77]


@pytest.mark.parametrize("blob", [b"", bytes(3072), bytes(3074)], ids=len)
def test_a_broken_cifar_record_is_named(blob):
    with pytest.raises(InputError, match=f"b.bin must hold whole records of 3073 bytes, it has {len(blob)}"):
        read_cifar("b.bin", blob)


def test_svhn_axes_and_zero():
    images, labels = noise(11, 3, 32, 32), np.arange(11) % 10
    found, classes = read_svhn("c.mat", mat(images, labels))
    np.testing.assert_array_equal(found, images)
    np.testing.assert_array_equal(classes, labels)


def _mat(**content):
    import io

    from scipy.io import savemat

    file = io.BytesIO()
    savemat(file, content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"", "c.mat is not a readable MATLAB 5 file"),
        (b"nonsense" * 100, "c.mat is not a readable MATLAB 5 file"),
        (mat(noise(2, 3, 32, 32), np.array([1, 2]))[:-40], "c.mat is not a readable MATLAB 5 file"),
        (b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM" + b"\x89HDF\r\n\x1a\n" * 9, "c.mat is not a readable"),
        (_mat(y=np.ones((2, 1))), "c.mat must hold X"),
        (_mat(X=np.zeros((32, 32, 3, 2)), y=np.ones((2, 1))), "c.mat must hold X"),
        (_mat(X=np.zeros((32, 32, 3, 2), np.uint8), y=np.ones((3, 1))), "c.mat must hold X"),
        (_mat(X=np.zeros((32, 32, 3, 2), np.uint8), y=np.array([[0], [1]])), "labels from 1 to 10, it has 0 to 1"),
    ],
)
def test_a_bad_svhn_file_is_named(blob, message):
    with pytest.raises(InputError, match=message):
        read_svhn("c.mat", blob)


@pytest.mark.parametrize("place", [official._DIGITS_FILE, ("moved", "away.gz")], ids=["file", "moved"])
def test_digits_are_those_of_scikit_learn(monkeypatch, place):
    monkeypatch.setattr(official, "_DIGITS_FILE", place)
    values, labels = load_digits(return_X_y=True)
    read, found = official._digits_table()
    np.testing.assert_array_equal(read, values)
    np.testing.assert_array_equal(found, labels)
    assert found.dtype == labels.dtype


def test_reading_digits_does_not_import_scikit_learn():
    code = "import sys; from multipartite.experiments.data.official import read_digits; read_digits({}, 0); "
    imported = subprocess.run(
        [sys.executable, "-c", code + "print('sklearn' in sys.modules)"], capture_output=True, text=True, check=True
    )
    assert imported.stdout.strip() == "False"
