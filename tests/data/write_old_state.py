"""How old_state.safetensors was written: once, with 0.1.0. Do not write it again; add a new file beside it.

python tests/data/write_old_state.py tests/data/old_state.safetensors
"""

import sys

import torch
from safetensors.torch import save_file

import multipartite as mp

LAYERS = {
    "kl": {"groups": 2},
    "ttest": {"criterion": "ttest", "projection": "orthogonal"},
    "information": {"criterion": "information", "assignment": "soft"},
    "frozen": {"assignment": "stochastic"},
}


def layer(name):
    return mp.MultipartitePool2d(3, 2, 1, num_classes=3, refit_every=1, **LAYERS[name])


def main(path):
    torch.manual_seed(0)
    labels = torch.arange(12) % 3
    images = torch.randn(12, 4, 7, 7) + torch.eye(3, 4)[labels][..., None, None]
    tensors = {"input": images[:2].contiguous()}
    for name in LAYERS:
        pool = layer(name)
        with mp.supervise(labels):
            pool(images)
        if name == "frozen":
            mp.freeze(pool)
        tensors[f"{name}/output"] = pool.eval()(images[:2]).detach().contiguous()
        tensors.update({f"{name}/state/{key}": t for key, t in pool.state_dict().items()})
    save_file(tensors, path, metadata={"multipartite": mp.__version__})


if __name__ == "__main__":
    main(sys.argv[1])
