"""What every test shares: one torch thread a process, so that two workers fill two cores."""

import torch

torch.set_num_threads(1)
