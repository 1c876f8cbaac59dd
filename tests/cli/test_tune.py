import pytest

from command_line import run_example, run_words
from multipartite.pooling import create


@pytest.mark.slow
def test_the_example_of_the_help_runs_and_ends_with_a_word_to_paste(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = run_example("tune")
    assert status == 0, err
    option, word = out.splitlines()[-1].split(" ")
    assert option == "--pooling"
    create(word, 2, num_classes=10)


@pytest.mark.parametrize(
    ("words", "said"), [(["--budget", "0"], "budget"), (["--jobs", "0"], "jobs"), (["--epochs", "0"], "epochs")]
)
def test_bad_numbers_are_one_sentence_and_status_2(tmp_path, words, said):
    status, _, err = run_words("tune", "digits", "--out", tmp_path, *words)
    assert status == 2
    assert said in err
    assert err.count("\n") == 1
