import numpy as np
import pytest
import torch
from PIL import Image

from multipartite.errors import InputError
from multipartite.experiments.data import load


def fill(folder, classes, n=10, size=(8, 8), mode="RGB", ending="png"):
    """Images of one value, which counts through the classes, so that each tells its label."""
    for value, name in enumerate(classes):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(n):
            colour = 50 * value if mode == "L" else (50 * value,) * 3
            Image.new(mode, size, colour).save(folder / name / f"{i}.{ending}")
    return folder


def test_sub_folders_are_classes(tmp_path):
    data = load(fill(tmp_path / "pets", ["dog", "cat", "ant"]))
    assert data.name == "pets"
    assert data.class_names == ("ant", "cat", "dog")
    assert data.train.images.shape == (24, 3, 8, 8)
    assert data.train.images.dtype == torch.uint8
    assert data.test.labels.bincount().tolist() == [2, 2, 2]
    value = torch.tensor([100, 50, 0])  # of ant, cat, dog
    for part in ("train", "test"):
        images, labels = getattr(data, part).images, getattr(data, part).labels
        assert images[:, 0, 0, 0].equal(value[labels].to(torch.uint8))


def test_a_path_that_is_text_works_and_a_name_wins_over_a_folder(tmp_path, monkeypatch):
    fill(tmp_path / "digits", ["a", "b"])
    monkeypatch.chdir(tmp_path)
    assert load("./digits").class_names == ("a", "b")
    assert load("digits").num_classes == 10


def test_the_seed_settles_the_test_part(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(30):
            Image.new("L", (4, 4), 8 * i).save(tmp_path / name / f"{i}.png")
    first, again, other = (load(tmp_path, seed=seed).test.images for seed in (0, 0, 1))
    assert first.equal(again)
    assert not first.equal(other)


def test_grey_images_have_one_channel_unless_one_is_coloured(tmp_path):
    fill(tmp_path, ["a", "b"], mode="L")
    assert load(tmp_path).shape == (1, 8, 8)
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a" / "red.png")
    assert load(tmp_path).shape == (3, 8, 8)


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [([(64, 48), (64, 48)], (48, 64)), ([(20, 20), (30, 20)], (32, 32)), ([(90, 70), (90, 70)], (32, 32))],
)
def test_images_come_to_one_size(sizes, shape, tmp_path):
    for name, size in zip("ab", sizes, strict=True):
        fill(tmp_path, [name], size=size)
    assert load(tmp_path).shape == (3, *shape)


def test_scaling_keeps_the_proportions(tmp_path):
    fill(tmp_path, ["a", "b"], size=(128, 128))
    wide = np.zeros((64, 192), np.uint8)
    wide[:, 64:128] = 255  # a white square in the middle of a wide black image
    for name in "ab":
        for i in range(10):
            Image.fromarray(wide).save(tmp_path / name / f"{i}.png")
    data = load(tmp_path)
    assert data.shape == (1, 32, 32)
    assert float(data.train.images.float().mean()) > 250


@pytest.mark.parametrize(("mode", "value"), [("1", 1), ("P", 3), ("RGBA", (9, 9, 9, 255)), ("I;16", 40000)])
def test_other_modes_are_read(mode, value, tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        for i in range(4):
            Image.new(mode, (8, 8), value).save(tmp_path / name / f"{i}.png")
    data = load(tmp_path)
    if mode == "I;16":
        assert data.train.images.unique().tolist() == [40000 >> 8]
    assert data.shape[0] == (1 if mode in ("1", "I;16") else 3)


def test_a_photograph_on_its_side_is_turned_up(tmp_path):
    fill(tmp_path, ["a", "b"], size=(20, 10))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    for path in tmp_path.rglob("*.png"):
        Image.open(path).save(path.with_suffix(".jpg"), exif=exif)
        path.unlink()
    assert load(tmp_path).shape == (3, 20, 10)


def test_train_and_test_folders_are_kept_apart(tmp_path):
    fill(tmp_path / "train", ["a", "b"], n=5)
    fill(tmp_path / "test", ["a", "b"], n=1)
    data = load(tmp_path)
    assert data.class_names == ("a", "b")
    assert data.train.labels.tolist() == [0] * 5 + [1] * 5
    assert data.test.labels.tolist() == [0, 1]
    fill(tmp_path / "test", ["c"], n=1)
    with pytest.raises(InputError, match="must hold the same classes, c is in one only"):
        load(tmp_path)


def test_what_is_no_image_is_left_alone(tmp_path):
    fill(tmp_path, ["a", "b"])
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "a" / "notes.txt").write_text("x")
    (tmp_path / "a" / "._0.png").write_text("x")
    data = load(tmp_path)
    assert data.class_names == ("a", "b")
    assert len(data.train) + len(data.test) == 20


@pytest.mark.parametrize("damage", ["text", "truncated"])
def test_an_unreadable_image_is_named(damage, tmp_path):
    fill(tmp_path, ["a", "b"], size=(50, 50))
    path = tmp_path / "b" / "7.png"
    path.write_bytes(b"no image" if damage == "text" else path.read_bytes()[:60])
    with pytest.raises(InputError, match=rf"^1 of 20 images cannot be read: {path} \(.*\); .*--skip-unreadable$"):
        load(tmp_path)


def test_all_unreadable_images_are_counted_and_named(tmp_path):
    fill(tmp_path, ["a", "b"])
    bad = [tmp_path / name / f"{i}.png" for name in "ab" for i in (2, 5, 7)]
    for path in bad:
        path.write_bytes(b"no image")
    with pytest.raises(InputError) as error:
        load(tmp_path)
    message = str(error.value)
    assert message.startswith("6 of 20 images cannot be read: ")
    assert all(f"{path} (it is no image)" in message for path in bad)
    assert message.endswith("(it is no image); repair or remove them, or leave them out: --skip-unreadable")


def test_unreadable_images_can_be_left_out(tmp_path):
    whole, part = (fill(tmp_path / name, ["a", "b"]) for name in ("whole", "part"))
    for path in (part / "a" / "3.png", part / "b" / "3.png"):
        path.write_bytes(b"no image")
    with pytest.warns(UserWarning, match="left out, 2 of 20 images cannot be read: .*/a/3.png"):
        data = load(part, skip_unreadable=True)
    for path in (whole / "a" / "3.png", whole / "b" / "3.png"):
        path.unlink()
    expected = load(whole)
    assert data.train.images.equal(expected.train.images)
    assert data.test.labels.equal(expected.test.labels)


def test_a_class_of_which_too_little_can_be_read_is_named(tmp_path):
    fill(tmp_path, ["a", "b"], n=2)
    (tmp_path / "b" / "0.png").write_bytes(b"no image")
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(InputError, match=r"class b needs an image to train and one to test, .*/b holds 1 that can"),
    ):
        load(tmp_path, skip_unreadable=True)


def test_one_class_is_refused(tmp_path):
    fill(tmp_path, ["only"])
    with pytest.raises(InputError, match=f"{tmp_path} has one class only, only"):
        load(tmp_path)


def test_a_folder_without_classes_is_refused(tmp_path):
    Image.new("L", (8, 8)).save(tmp_path / "0.png")
    with pytest.raises(InputError, match=f"{tmp_path} has no sub-folders"):
        load(tmp_path)


def test_an_empty_class_is_named(tmp_path):
    fill(tmp_path, ["a", "b"])
    (tmp_path / "c").mkdir()
    with pytest.raises(InputError, match="class c has no images"):
        load(tmp_path)


def test_a_class_with_one_image_is_named(tmp_path):
    fill(tmp_path, ["a", "b"])
    fill(tmp_path, ["c"], n=1)
    with pytest.raises(InputError, match="class c needs an image to train and one to test"):
        load(tmp_path)
