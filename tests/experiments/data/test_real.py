"""The real data sets, where MULTIPARTITE_DATA holds them."""

import os
import runpy
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch

from multipartite.experiments.data import load
from multipartite.experiments.data.catalogue import find, origins
from multipartite.experiments.data.source import data_folder, missing


def real(name, **options):
    if not os.environ.get("MULTIPARTITE_DATA"):
        pytest.skip("MULTIPARTITE_DATA is not set")
    if any(missing(origin, data_folder()) for origin in origins(find(name))):
        pytest.skip(f"{name} is not under MULTIPARTITE_DATA")
    return load(name, download=False, **options)


# Means and deviations of the training images in 0 to 1, as the literature has them.
KNOWN = {
    "mnist": ([0.1307], [0.3081]),
    "fashion-mnist": ([0.2860], [0.3530]),
    "cifar10": ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
    "cifar100": ([0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762]),
    "svhn": ([0.4377, 0.4438, 0.4728], [0.1980, 0.2010, 0.1970]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_real_images_have_the_known_sizes_and_moments(name):
    data, source = real(name), find(name)
    assert (len(data.train), len(data.test)) == source.sizes
    assert data.shape == source.shape
    assert data.train.labels.unique().tolist() == list(range(data.num_classes))
    torch.testing.assert_close(data.mean / 255, torch.tensor(KNOWN[name][0]), atol=5e-4, rtol=0)
    torch.testing.assert_close(data.std / 255, torch.tensor(KNOWN[name][1]), atol=5e-4, rtol=0)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("mnist", ["5", "0", "4", "1"]),
        ("fashion-mnist", ["Ankle boot", "T-shirt/top", "T-shirt/top", "Dress"]),
        ("cifar10", ["frog", "truck", "truck", "deer"]),
        ("cifar100", ["cattle", "dinosaur", "apple", "boy"]),
    ],
)
def test_real_labels_have_their_names(name, first):
    data = real(name)
    assert [data.class_names[label] for label in data.train.labels[:4]] == first


def test_background_mnist_keeps_the_labels_and_undoes_to_a_photograph():
    plain, made = real("mnist"), real("background-mnist")
    assert made.shape == (1, 28, 28)
    assert made.train.labels.equal(plain.train.labels)
    assert made.test.labels.equal(plain.test.labels)
    outside = plain.train.images == 0  # there the photograph shows as it is
    photographs = real("cifar10").train.images.double().mean().item()
    assert abs(made.train.images[outside].double().mean().item() - photographs) < 3
    inside = plain.train.images == 255  # and here its negative
    assert abs(255 - made.train.images[inside].double().mean().item() - photographs) < 5


def test_cluttered_mnist_keeps_the_labels_and_adds_ink():
    plain, cluttered = real("mnist"), real("cluttered-mnist")
    assert cluttered.shape == (1, 40, 40)
    assert cluttered.train.labels.equal(plain.train.labels)
    assert cluttered.test.labels.equal(plain.test.labels)
    ink = [(data.train.images[:1000] > 127).sum((1, 2, 3)).double() for data in (plain, cluttered)]
    assert torch.all(ink[1] >= ink[0])
    assert ink[1].mean() > 1.5 * ink[0].mean()


DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.slow
def test_the_pictures_of_the_made_data_sets_are_drawn_from_the_data(tmp_path):
    real("background-mnist")
    main = runpy.run_path(str(DOCS / "figure_made.py"))["main"]
    main.__globals__["FOLDER"] = tmp_path
    main()
    drawn = sorted(path.name for path in tmp_path.glob("*.png"))
    assert drawn == ["background-mnist.png", "cluttered-mnist.png"]
    for name in drawn:
        kept, fresh = DOCS / "figures" / name, matplotlib.image.imread(tmp_path / name)
        assert np.abs(fresh - matplotlib.image.imread(kept)).mean() < 0.02, f"run make figures: {kept.name}"


def test_without_the_data_the_pictures_are_not_drawn_and_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MULTIPARTITE_DATA", str(tmp_path))
    runpy.run_path(str(DOCS / "figure_made.py"))["main"]()
    assert "are not drawn: data set mnist needs" in capsys.readouterr().err
