"""Kill writers of checkpoints at random moments; after each kill a whole checkpoint must load.

Run by test_checkpoint.py in a process of its own: children are forked from one that has imported torch already.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from multipartite.experiments.run import checkpoint, store


def write_for_ever(folder, step, report):
    while True:
        step += 1
        checkpoint.save(folder, {"weight": torch.full((400, 100), float(step))}, {"step": step})
        os.write(report, step.to_bytes(8, "little"))


def main(folder, kills):
    torch.set_num_threads(1)
    chance = random.Random(0)
    step = writing = 0
    for _ in range(kills):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            write_for_ever(folder, step, write)
        os.close(write)
        time.sleep(chance.uniform(0.002, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        told = b""
        while chunk := os.read(read, 65536):
            told += chunk
        os.close(read)
        reported = int.from_bytes(told[-8:], "little") if told else step
        writing += (folder / f".{store.CHECKPOINT}.part").exists()
        found = checkpoint.load(folder)
        if found is None:
            assert reported == 0, "a checkpoint was reported and is gone"
            continue
        tensors, record = found
        step = record["step"]
        assert reported <= step <= reported + 1, f"reported {reported}, found {step}"
        assert torch.equal(tensors["weight"], torch.full((400, 100), float(step)))
    print(json.dumps({"kills": kills, "killed_while_writing": writing, "steps": step}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
