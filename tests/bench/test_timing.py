import time

import torch

from multipartite.bench.timing import interleave, peak_bytes


def test_ratios_are_to_the_first_call():
    timings = interleave({"one": lambda: time.sleep(0.002), "three": lambda: time.sleep(0.006)}, seconds=0.05)
    assert timings["one"].ratio == 1
    assert 1.5 < timings["three"].ratio < 6
    assert timings["one"].n == timings["three"].n >= 7


def test_ratios_are_to_the_best_of_the_yardsticks():
    waits = {"slow": 0.006, "quick": 0.002, "other": 0.004}
    calls = {name: lambda wait=wait: time.sleep(wait) for name, wait in waits.items()}
    timings = interleave(calls, seconds=0.05, yardsticks=["slow", "quick"])
    assert timings["quick"].ratio == 1
    assert timings["slow"].ratio > timings["other"].ratio > 1


def test_calls_take_turns():
    order = []
    interleave({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, seconds=0, least=3)
    assert order == ["a", "b"] * 4  # once to warm up


def test_peak_counts_what_is_held_at_once():
    def two_after_each_other():
        torch.zeros(1 << 16, dtype=torch.uint8)
        torch.zeros(1 << 16, dtype=torch.uint8)

    def two_at_once():
        return torch.zeros(1 << 16, dtype=torch.uint8), torch.zeros(1 << 16, dtype=torch.uint8)

    assert peak_bytes(two_after_each_other) == 1 << 16
    assert peak_bytes(two_at_once) == 1 << 17
