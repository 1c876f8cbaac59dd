from multipartite.bench.guard import slower

LAYER = {"case": "a", "layout": "contiguous", "phase": "evaluation", "pooling": "multipartite"}
NETWORK = {"network": "lenet", "phase": "training", "pooling": "multipartite:assignment=stochastic"}


def test_says_what_got_slower():
    said = slower(
        [{**LAYER, "ratio": 0.8}, {**NETWORK, "speed_ratio": 0.5}],
        [{**LAYER, "ratio": 0.4}, {**NETWORK, "speed_ratio": 0.95}],
    )
    assert len(said) == 2
    assert said["a | contiguous | evaluation | multipartite"] == "0.80 of max pooling, 0.40 on record"
    assert "lenet | training | multipartite:assignment=stochastic" in said


def test_within_tolerance_or_without_a_record_says_nothing():
    assert slower([{**LAYER, "ratio": 0.49}], [{**LAYER, "ratio": 0.4}]) == {}
    assert slower([{**LAYER, "ratio": 9.0}], []) == {}


def test_other_poolings_are_not_guarded():
    row = {**LAYER, "pooling": "average"}
    assert slower([{**row, "ratio": 9.0}], [{**row, "ratio": 0.1}]) == {}
