import hashlib
import pickle
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import multipartite.experiments.data as package
from data_files import images_and_labels, lay_out, official
from multipartite.errors import InputError
from multipartite.experiments.data import Source, available, check_name, load, register
from multipartite.experiments.data.catalogue import CATALOGUE, find, origins
from multipartite.experiments.data.made import put_on_photographs

FILED = ["mnist", "fashion-mnist", "cifar10", "cifar100", "svhn"]
EVERY_FILE = [(name, path) for name in FILED for path in CATALOGUE[name].files]


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
    lay_out("mnist", tmp_path, monkeypatch)
    data, again, other = (load("cluttered-mnist", tmp_path, seed=seed) for seed in (0, 0, 1))
    assert data.train.images.shape == (40, 1, 40, 40)
    assert data.train.images.equal(again.train.images)
    assert not data.train.images.equal(other.train.images)
    assert data.train.labels.tolist() == [i % 10 for i in range(40)]


def test_background_mnist_is_made_from_the_files_of_two_data_sets(tmp_path, monkeypatch):
    lay_out("mnist", tmp_path, monkeypatch)
    with pytest.raises(InputError, match=r"needs .*/cifar10/.* data get background-mnist --data-dir"):
        load("background-mnist", tmp_path, download=False)
    lay_out("cifar10", tmp_path, monkeypatch)
    data, again, other = (load("background-mnist", tmp_path, seed=seed) for seed in (0, 0, 1))
    assert data.shape == (1, 28, 28)
    assert data.train.images.equal(again.train.images)
    assert not data.train.images.equal(other.train.images)
    for part in ("train", "test"):
        digits, labels = images_and_labels("mnist", part)
        photographs, _ = images_and_labels("cifar10", part)
        made = put_on_photographs(digits, photographs, (0, int(part == "test")))
        np.testing.assert_array_equal(getattr(data, part).images.numpy(), made)
        np.testing.assert_array_equal(getattr(data, part).labels.numpy(), labels)


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
    names = ["digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "svhn", "cluttered-mnist", "background-mnist"]
    assert available()[: len(names)] == names
    for name in names:
        source = CATALOGUE[name]
        assert source.name == name
        assert len(set(source.class_names)) == len(source.class_names)
        assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in source.files.values())
        assert all(mirror.endswith("/") for mirror in source.mirrors)
        assert bool(source.files) == bool(source.mirrors)
        assert not (source.files and source.made_from)
    assert list(CATALOGUE["cifar100"].class_names) == sorted(CATALOGUE["cifar100"].class_names)
    assert official("mnist").keys() == CATALOGUE["mnist"].files.keys()


def test_photographs_and_clothes_may_be_mirrored_and_digits_may_not(tmp_path, monkeypatch):
    mirrored = {name for name in available() if isinstance(CATALOGUE[name], Source) and CATALOGUE[name].flips}
    assert mirrored == {"fashion-mnist", "cifar10", "cifar100"}
    for name in ("mnist", "cifar10"):
        lay_out(name, tmp_path, monkeypatch)
        assert load(name, tmp_path).limit(20).with_validation(0.5).flips == (name == "cifar10")


OWN = """
import numpy as np
from multipartite.experiments.data import Dataset, Source, Split

half = np.zeros((20, 1, 12, 12), np.uint8), np.arange(20) % 2

def load_mine(folder, seed):
    return Dataset("mine", Split.of(half[0] + seed, half[1]), Split.of(*half), ("a", str(folder)))

def wrong(folder, seed):
    return half

SOURCE = Source("named", "nothing", (1, 12, 12), (20, 20), ("a", "b"), lambda files, seed: (*half, *half))
number = 5
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of somebody's own in the folder one stands in."""
    (tmp_path / "my_data.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    yield "my_data"
    sys.modules.pop("my_data", None)


@pytest.fixture
def catalogue(monkeypatch):
    """The catalogue, which forgets what is added to it."""
    monkeypatch.setattr(CATALOGUE, "_entries", dict(CATALOGUE._entries))
    return CATALOGUE


def test_a_function_of_ones_own_is_loaded_by_reference(own, tmp_path):
    data = load(f"{own}:load_mine", tmp_path / "there", seed=3)
    assert data.name == "mine"
    assert data.class_names[1] == str(tmp_path / "there"), "it is told the data folder"
    assert int(data.train.images.max()) == 3, "and the seed"


def test_a_source_of_ones_own_is_loaded_by_reference(own):
    assert load(f"{own}:SOURCE").shape == (1, 12, 12)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("my_data:number", "must be a Source or a function that gives a Dataset, got int"),
        ("my_data:nothing", "is not there: module my_data has no 'nothing'"),
        ("my_dtaa:load_mine", "cannot be imported: No module named 'my_dtaa'"),
        ("my_data:wrong", "must return a Dataset, got tuple"),
        ("mnist:limit=3", "options of a data set read"),
        (":load", "reads package.module:attribute"),
    ],
)
def test_a_wrong_reference_is_one_sentence(own, reference, message):
    with pytest.raises(InputError, match=message):
        load(reference)


def test_a_registered_data_set_is_loaded_by_name(own, catalogue):
    register("mine", find(f"{own}:load_mine"))
    register("other", find(f"{own}:SOURCE"))
    assert load("mine").name == "mine"
    assert load("other").name == "other", "the name that was registered counts"
    assert available()[-2:] == ["mine", "other"]
    for taken in ("mnist", "mine"):
        with pytest.raises(InputError, match=f"there is a data set called '{taken}' already"):
            register(taken, find(f"{own}:SOURCE"))


def test_a_data_set_can_be_made_from_a_made_one(catalogue, tmp_path, monkeypatch):
    lay_out("mnist", tmp_path, monkeypatch)

    def darken(sources, seed):
        train_images, train_labels, test_images, test_labels = sources["cluttered-mnist"]
        return train_images // 2, train_labels, test_images // 2, test_labels

    made = Source("", "", (1, 40, 40), (40, 40), tuple("0123456789"), darken, made_from=("cluttered-mnist",))
    register("dark", made)
    assert load("dark", tmp_path).train.images.equal(load("cluttered-mnist", tmp_path).train.images // 2)
    assert [origin.name for origin in origins(CATALOGUE["dark"])] == ["mnist"]
    register("function", lambda folder, seed: load("digits"))
    register("darker", replace(made, made_from=("function",)))
    with pytest.raises(InputError, match="darker must be made from data sets with a Source, function is a function"):
        load("darker")


def test_what_a_made_data_set_needs_is_got_under_its_own_name(tmp_path):
    with pytest.raises(InputError, match=r"cluttered-mnist needs .*train-images.* data get cluttered-mnist --data-dir"):
        load("cluttered-mnist", tmp_path, download=False)


def test_a_name_is_checked_before_anything_is_loaded(own, tmp_path):
    for right in ("mnist", tmp_path, "my_data:load_mine"):
        check_name(right)
    with pytest.raises(InputError, match=r"unknown data set 'mnits': did you mean mnist\?.*a folder with"):
        check_name("mnits")
    with pytest.raises(InputError, match=r"unknown data set '\./nowhere'"):
        check_name("./nowhere")


def test_a_name_is_checked_without_torch():
    code = (
        "import sys; from multipartite.experiments.data import available, check_name; available()\n"
        "try: check_name('mnits')\nexcept ValueError: print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_public_names_are_there():
    for name in package.__all__:
        assert getattr(package, name).__doc__
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing
