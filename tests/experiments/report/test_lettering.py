"""Names in any script: drawn where a font is at hand, replaced by a plain word where none is."""

import io

import numpy as np
import pytest
import torch
from matplotlib import font_manager, rcParams
from matplotlib.figure import Figure
from PIL import Image

from multipartite.experiments.report.explanation import Explanation, Look, Map, draw
from multipartite.experiments.report.lettering import fonts_for, lettering

CATS, DOGS = "\u732b", "\u72d7"  # in Chinese


@pytest.fixture
def no_fonts(monkeypatch):
    """A machine with the fonts of matplotlib alone."""
    own = [font for font in font_manager.fontManager.ttflist if "mpl-data" in str(font.fname)]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    monkeypatch.setattr(font_manager, "findSystemFonts", list)


@pytest.fixture
def chinese():
    if fonts_for([CATS, DOGS])[1]:
        pytest.skip("no font for Chinese is installed")


def pixels(text):
    """What a text looks like."""
    with lettering([text]) as legible:
        figure = Figure(figsize=(1, 0.5))
        figure.text(0.1, 0.3, legible(text), fontsize=20, fontweight="bold")
    buffer = io.BytesIO()
    figure.savefig(buffer)  # outside: the figure keeps its fonts
    return np.asarray(Image.open(buffer).convert("L"))


def explanation(*names):
    look = Look("pool1", "score", "", Map(torch.rand(4, 4), 0.0, 1.0), Map(torch.rand(4, 4), 0.0, 1.0))
    flat = torch.zeros(1, 4, 4, dtype=torch.uint8)
    return Explanation(flat, 0, names, torch.tensor([0.9, 0.1]), [look])


def texts(figure):
    ticks = [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    return [text.get_text() for text in figure.texts] + [axes.get_title() for axes in figure.axes] + ticks


def test_plain_words_need_no_other_font():
    assert fonts_for(["caf\u00e9", "a b\n"]) == (list(rcParams["font.family"]), frozenset())


def test_chinese_is_drawn(chinese, caplog):
    looks = [pixels(text) for text in (CATS, DOGS)]
    assert all((look < 128).sum() > 30 for look in looks)
    assert not np.array_equal(*looks), "a box for each would be the same"
    assert caplog.text == "", "matplotlib has nothing to say"


def test_an_explanation_shows_class_names_in_chinese(chinese):
    figure = draw(explanation(CATS, DOGS), f"max pooling on {CATS}")
    figure.savefig(io.BytesIO())  # a missing letter would be a warning
    assert f"max pooling on {CATS}" in texts(figure)
    assert f"image: {CATS}" in texts(figure)
    assert texts(figure)[-2:] == [CATS, DOGS]


def test_without_a_font_a_plain_word_stands_for_the_name(no_fonts):
    with pytest.warns(UserWarning, match=f"no font on this machine can draw {DOGS}, {CATS}: .* Noto Sans CJK") as said:
        figure = draw(explanation(CATS, DOGS), f"max pooling on {CATS}")
    assert len(said) == 1
    assert said[0].filename == __file__
    figure.savefig(io.BytesIO())
    assert "max pooling on ?" in texts(figure)
    assert "image: class 0" in texts(figure)
    assert texts(figure)[-2:] == ["class 0", "class 1"]


def test_a_font_that_came_since_matplotlib_looked_is_found(chinese, monkeypatch):
    before = [font for font in font_manager.fontManager.ttflist if not fonts_with(font, CATS)]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", before)
    families, missing = fonts_for([CATS])
    assert not missing
    assert len(families) > len(rcParams["font.family"])


def fonts_with(font, letter):
    return ord(letter) in font_manager.get_font(font.fname).get_charmap()


def test_a_broken_font_file_is_passed_over(no_fonts, tmp_path, monkeypatch):
    (tmp_path / "broken.ttf").write_text("no font")
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(tmp_path / "broken.ttf")])
    assert fonts_for([CATS])[1] == {CATS}
