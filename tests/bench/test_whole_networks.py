from multipartite.bench.networks import measure


def test_every_pooling_is_timed_in_both_layouts_against_the_better_of_max_poolings():
    rows = list(measure("lenet", seconds=0, batch=2, poolings=("max", "average"), memory=False, steps=2))
    assert len(rows) == 2 * 2 * 2
    for phase in ("training", "evaluation"):
        plain = {row["layout"]: row for row in rows if row["phase"] == phase and row["pooling"] == "max"}
        best = max(plain.values(), key=lambda row: row["samples_per_second"])
        assert best["speed_ratio"] == 1
        assert sorted(plain) == ["channels_last", "contiguous"]
