"""What every test shares: one torch thread a process, so that two workers fill two cores, and no AMX.

Some virtual machines announce AMX and then refuse its instructions, so that half precision ends the process; vectors of
512 bits serve as well. It is told to the processes that tests start, too.
"""

import os

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")  # read when torch first multiplies

import torch

torch.set_num_threads(1)
