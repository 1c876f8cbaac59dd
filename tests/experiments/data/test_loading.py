import hashlib
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from data_files import images_and_labels, lay_out, official
from multipartite.errors import InputError
from multipartite.experiments.data import available, load
from multipartite.experiments.data.registry import SOURCES

FILED = ["mnist", "fashion-mnist", "cifar10", "cifar100", "svhn"]
EVERY_FILE = [(name, path) for name in FILED for path in SOURCES[name].files]


@pytest.mark.parametrize("name", FILED)
def test_every_official_format_loads(name, tmp_path, monkeypatch):
    lay_out(name, tmp_path, monkeypatch)
    data = load(name, tmp_path)
    for part in ("train", "test"):
        images, labels = images_and_labels(name, part)
        np.testing.assert_array_equal(getattr(data, part).images.numpy(), images)
        np.testing.assert_array_equal(getattr(data, part).labels.numpy(), labels)
    assert data.name == name
    assert data.train.images.dtype == torch.uint8
    assert data.train.labels.dtype == torch.int64
    assert data.num_classes == len(data.class_names) == (100 if name == "cifar100" else 10)


@pytest.mark.parametrize(("name", "path"), EVERY_FILE)
@pytest.mark.parametrize("damage", ["truncated", "altered"])
def test_a_damaged_file_is_an_error_with_both_hashes_and_the_cure(name, path, damage, tmp_path, monkeypatch):
    source = lay_out(name, tmp_path, monkeypatch)
    blob = bytearray((tmp_path / path).read_bytes())
    if damage == "truncated":
        del blob[len(blob) // 2 :]
    else:
        blob[len(blob) // 2] ^= 1
    (tmp_path / path).write_bytes(blob)
    with pytest.raises(InputError) as error:
        load(name, tmp_path)
    message = str(error.value)
    for needed in (
        str(tmp_path / path),
        hashlib.sha256(blob).hexdigest(),
        source.files[path],
        f"delete it, then run: multipartite data get {name} --data-dir {tmp_path}",
    ):
        assert needed in message
    assert (tmp_path / path).read_bytes() == blob, "a user's file is never replaced unasked"


def test_digits_are_built_in_and_the_same_for_every_seed():
    data, other = load("digits"), load("digits", seed=5)
    assert data.train.images.equal(other.train.images)
    assert data.train.images.shape == (1437, 1, 8, 8)
    assert data.test.images.shape == (360, 1, 8, 8)
    assert int(data.train.images.min()) == 0
    assert int(data.train.images.max()) == 255
    shares = data.test.labels.bincount() / (data.train.labels.bincount() + data.test.labels.bincount())
    assert torch.all((shares - 0.2).abs() < 0.01)


def test_digits_split_divides_the_images_of_scikit_learn():
    from sklearn.datasets import load_digits

    data = load("digits")
    both = torch.cat([data.train.images, data.test.images]).view(-1, 64).double() / 255 * 16
    everything = torch.from_numpy(load_digits().data)
    assert torch.equal(both.round().unique(dim=0), everything.unique(dim=0))


def test_cluttered_mnist_is_made_from_the_files_of_mnist(tmp_path, monkeypatch):
    files = lay_out("mnist", tmp_path, monkeypatch).files
    monkeypatch.setitem(SOURCES, "cluttered-mnist", replace(SOURCES["cluttered-mnist"], files=files))
    data, again, other = (load("cluttered-mnist", tmp_path, seed=seed) for seed in (0, 0, 1))
    assert data.train.images.shape == (40, 1, 40, 40)
    assert data.train.images.equal(again.train.images)
    assert not data.train.images.equal(other.train.images)
    assert data.train.labels.tolist() == [i % 10 for i in range(40)]


def test_the_environment_says_where_and_the_argument_wins(tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    lay_out("mnist", here, monkeypatch)
    monkeypatch.setenv("MULTIPARTITE_DATA", str(here))
    assert len(load("mnist").train) == 40
    with pytest.raises(InputError, match=re.escape(str(there))):
        load("mnist", there, download=False)


def test_without_both_the_cache_of_the_user_is_searched(tmp_path, monkeypatch):
    monkeypatch.delenv("MULTIPARTITE_DATA", raising=False)
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / project)
    lay_out("mnist", tmp_path / "multipartite", monkeypatch)
    assert len(load("mnist").train) == 40


def test_a_folder_without_the_files_is_one_clear_sentence(tmp_path):
    with pytest.raises(InputError) as error:
        load("cifar10", tmp_path, download=False)
    assert str(error.value) == (
        f"data set cifar10 needs {tmp_path}/cifar10/cifar-10-batches-bin/data_batch_1.bin, which is not there; "
        f"run: multipartite data get cifar10 --data-dir {tmp_path}"
    )


def test_a_file_in_place_of_the_data_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="must be a folder"):
        load("mnist", tmp_path / "file")


@pytest.mark.parametrize(("name", "near"), [("mnits", "mnist"), ("cifar-10", "cifar10"), ("fashion", "fashion-mnist")])
def test_an_unknown_name_suggests_the_nearest(name, near):
    with pytest.raises(InputError, match=f"unknown data set '{name}': did you mean {near}"):
        load(name)


def test_a_negative_seed_is_refused():
    with pytest.raises(InputError, match="seed must be zero or more, got -1"):
        load("digits", seed=-1)


@pytest.mark.parametrize("name", FILED)
def test_nothing_is_unpickled(name, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a data file was unpickled")

    lay_out(name, tmp_path, monkeypatch)
    for reader in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, reader, refuse)
    load(name, tmp_path)


def test_the_registry_is_complete():
    assert available() == ["digits", "mnist", "cluttered-mnist", "fashion-mnist", "cifar10", "cifar100", "svhn"]
    for name, source in SOURCES.items():
        assert source.name == name
        assert len(set(source.class_names)) == len(source.class_names)
        assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in source.files.values())
        assert all(mirror.endswith("/") for mirror in source.mirrors)
        assert bool(source.files) == bool(source.mirrors)
    assert list(SOURCES["cifar100"].class_names) == sorted(SOURCES["cifar100"].class_names)
    assert official("mnist").keys() == SOURCES["mnist"].files.keys()
