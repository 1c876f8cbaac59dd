import pytest

from command_line import run_example, run_words
from multipartite.experiments.grid.tuning import Trial, Tuned
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


def test_the_choices_of_training_reach_the_runs(tmp_path, monkeypatch):
    configs = []

    def search(config, folder, **_):
        configs.append(config)
        return Tuned("multipartite", (Trial(1.0, 0.1, "multipartite", 2),))

    monkeypatch.setattr("multipartite.experiments.grid.tuning.tune", search)
    words = "--augment --label-smoothing 0.1 --mixup 0.2 --skip-unreadable --momentum 0.8 --weight-decay 0.01"
    status, _, err = run_words("tune", "digits", *words.split(), "--schedule", "cosine", "--accelerator", "cpu")
    assert status == 0, err
    (config,) = configs
    assert (config.augment, config.label_smoothing, config.mixup, config.skip_unreadable) == (True, 0.1, 0.2, True)
    assert (config.momentum, config.weight_decay, config.schedule, config.accelerator) == (0.8, 0.01, "cosine", "cpu")


def test_one_epoch_is_one_epoch(monkeypatch):
    found = Tuned("multipartite", (Trial(1.0, 0.1, "multipartite", 1),))
    monkeypatch.setattr("multipartite.experiments.grid.tuning.tune", lambda config, folder, **_: found)
    status, out, err = run_words("tune", "digits", "--epochs", "1")
    assert status == 0, err
    assert "after 1 of 1 epoch, best" in out


def test_a_file_in_the_place_of_the_folder_is_one_sentence(tmp_path):
    (tmp_path / "mine").write_text("mine")
    status, out, err = run_words("tune", "digits", "--epochs", "3", "--out", tmp_path / "mine")
    assert (status, out) == (2, "")
    assert err == f"multipartite: {tmp_path / 'mine'} is a file: choose another --out\n"
