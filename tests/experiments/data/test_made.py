import hashlib

import numpy as np
import pytest
from PIL import Image

from multipartite.experiments.data.made import clutter, grey, make_background_mnist, put_on_photographs

N = 300


def classes_as_values():
    """Images whose every pixel is 10 times their class plus 1, so that a pixel tells where it came from."""
    labels = np.arange(N) % 10
    return np.broadcast_to((10 * labels + 1).astype(np.uint8)[:, None, None, None], (N, 1, 28, 28)), labels


def strokes():
    images = np.zeros((N, 1, 28, 28), np.uint8)
    images[:, :, 4:24, 4:24] = np.random.default_rng(1).integers(1, 256, (N, 1, 20, 20))
    return images, np.arange(N) % 10


def test_each_digit_is_somewhere_on_its_canvas():
    images, labels = strokes()
    canvas = clutter(images, labels, seed=0)
    windows = np.lib.stride_tricks.sliding_window_view(canvas[:, 0], (28, 28), axis=(1, 2))
    for digit, places in zip(images[:, 0], windows, strict=True):
        assert np.any(np.all(places >= digit, axis=(2, 3)))


def test_fragments_come_from_other_classes_and_count_at_most_six():
    images, labels = classes_as_values()
    canvas = clutter(images, labels, seed=0)[:, 0]
    own = (10 * labels + 1)[:, None, None]
    others = (canvas != own) & (canvas > 0)
    assert others[labels == 0].any(axis=(1, 2)).all(), "the darkest digits hide no fragment"
    assert 3 * 64 < others[labels == 0].sum((1, 2)).mean() <= others.sum((1, 2)).max() <= 6 * 64
    brightest = (canvas == own)[labels == 9].sum((1, 2))
    assert (brightest == 28 * 28).all(), "no fragment has the digit's own class"


def test_a_fragment_is_an_8_by_8_piece_of_a_digit():
    images, labels = strokes()
    images[labels == 0] = 0  # a blank digit leaves the fragments alone to be seen
    canvas = clutter(images, labels, seed=2)[:, 0]
    blank = canvas[labels == 0]
    donors = np.lib.stride_tricks.sliding_window_view(images[labels != 0][:, 0], (8, 8), axis=(1, 2))
    donors = {piece.tobytes() for piece in np.ascontiguousarray(donors[:, 4:17, 4:17]).reshape(-1, 64)}
    found = 0
    for picture in blank:
        windows = np.lib.stride_tricks.sliding_window_view(picture, (8, 8)).reshape(-1, 64)
        found += sum(np.ascontiguousarray(piece).tobytes() in donors for piece in windows)
    assert found > 2 * len(blank), "fragments that nothing covers are found whole"


def test_digits_and_fragments_reach_every_corner():
    images, labels = strokes()
    canvas = clutter(images, labels, seed=0)[:, 0]
    seen = (canvas > 0).any(0)
    assert seen.all()


def test_the_seed_alone_decides():
    images, labels = strokes()
    first, again, other = (clutter(images, labels, seed) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_images_stay_the_same_for_ever():
    """Figures of old runs are comparable only if the data set does not move under them."""
    images = (np.arange(20 * 784) % 251).astype(np.uint8).reshape(20, 1, 28, 28)
    digest = hashlib.sha256(clutter(images, np.arange(20) % 4, seed=(0, 0)).tobytes()).hexdigest()
    assert digest == "28ea9b8f984f5d3dc4a9d732ca7b5088aeadcd8d19946ee4469ef5bdef3e4793"


@pytest.mark.parametrize("counts", [(1, 299), (150, 150)])
def test_donors_are_of_another_class_however_uneven(counts):
    from multipartite.experiments.data.made import _others

    labels = np.repeat([0, 1], counts)
    random = np.random.default_rng(0)
    donors = np.stack([_others(labels, random) for _ in range(5000)])
    assert (labels[donors] != labels).all()
    assert len(np.unique(donors)) == len(labels), "every row is a donor"


def digits_and_photographs():
    random = np.random.default_rng(3)
    return random.integers(0, 256, (N, 1, 28, 28), np.uint8), random.integers(0, 256, (700, 3, 32, 32), np.uint8)


def test_backgrounds_against_a_slow_loop():
    images, photographs = digits_and_photographs()
    made = put_on_photographs(images, photographs, seed=5)
    assert made.shape == images.shape
    assert made.dtype == np.uint8
    random = np.random.default_rng(5)
    which, top, left = random.integers(700, size=N), random.integers(5, size=N), random.integers(5, size=N)
    for n in range(0, N, 10):
        ground = by_pillow(photographs[which[n]])
        for y in range(28):
            for x in range(28):
                expected = abs(int(ground[top[n] + y, left[n] + x]) - int(images[n, 0, y, x]))
                assert made[n, 0, y, x] == expected


def by_pillow(photograph):
    return np.asarray(Image.fromarray(photograph.transpose(1, 2, 0)).convert("L"))


def test_grey_is_the_luma_of_itu_r_601():
    _, photographs = digits_and_photographs()
    np.testing.assert_array_equal(grey(photographs), [by_pillow(photo) for photo in photographs])
    exact = np.tensordot(photographs, [0.299, 0.587, 0.114], axes=(1, 0))
    assert np.abs(grey(photographs) - exact).max() < 0.51


def test_every_photograph_and_place_is_used():
    blank = np.zeros((20000, 1, 28, 28), np.uint8)
    photographs = np.zeros((3, 3, 32, 32), np.uint8)
    photographs[:] = np.arange(32 * 32).reshape(32, 32) % 251  # the corner tells the place
    photographs[1] //= 2
    photographs[2] //= 3
    made = put_on_photographs(blank, photographs, seed=0)[:, 0, :2, :2].reshape(-1, 4)
    counts = np.unique(made, axis=0, return_counts=True)[1]
    assert len(counts) == 3 * 25
    assert counts.min() > 0.6 * 20000 / 75
    assert counts.max() < 1.4 * 20000 / 75


def test_the_seed_alone_decides_the_backgrounds():
    images, photographs = digits_and_photographs()
    first, again, other = (put_on_photographs(images, photographs, seed) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_backgrounds_stay_the_same_for_ever():
    """Figures of old runs are comparable only if the data set does not move under them."""
    images = (np.arange(20 * 784) % 251).astype(np.uint8).reshape(20, 1, 28, 28)
    photographs = (np.arange(9 * 3072) % 241).astype(np.uint8).reshape(9, 3, 32, 32)
    digest = hashlib.sha256(put_on_photographs(images, photographs, seed=(0, 0)).tobytes()).hexdigest()
    assert digest == "879522fce16c7d75f6f00661bd31810f6a2adabf63ea2d632dff4656d2e36652"


def test_train_and_test_do_not_mix():
    dark, bright = np.zeros((6, 3, 32, 32), np.uint8), np.full((6, 3, 32, 32), 200, np.uint8)
    digits = np.zeros((30, 1, 28, 28), np.uint8)
    mnist = digits, np.arange(30) % 10, digits + 50, np.arange(30) % 7
    train, train_labels, test, test_labels = make_background_mnist(
        {"mnist": mnist, "cifar10": (dark, np.zeros(6), bright, np.zeros(6))}, 0
    )
    assert np.unique(train).tolist() == [0]
    assert np.unique(test).tolist() == [150]
    assert train_labels is mnist[1]
    assert test_labels is mnist[3]
