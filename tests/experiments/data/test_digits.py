"""The embedded digits are scikit-learn's, wherever its release keeps them."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from multipartite.experiments.data import digits


@pytest.mark.parametrize("place", [digits._FILE, ("moved", "away.gz")], ids=["file", "moved"])
def test_digits_are_those_of_scikit_learn(monkeypatch, place):
    monkeypatch.setattr(digits, "_FILE", place)
    values, labels = load_digits(return_X_y=True)
    read, found = digits._table()
    np.testing.assert_array_equal(read, values)
    np.testing.assert_array_equal(found, labels)
    assert found.dtype == labels.dtype


def test_reading_digits_does_not_import_scikit_learn():
    code = "import sys; from multipartite.experiments.data.digits import read_digits; read_digits({}, 0); "
    imported = subprocess.run(
        [sys.executable, "-c", code + "print('sklearn' in sys.modules)"], capture_output=True, text=True, check=True
    )
    assert imported.stdout.strip() == "False"
