"""Compile ``kernels.c`` when a wheel is built, also an editable one; without a C compiler the package does without."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("src/multipartite/pooling/kernels.c")
FLAGS = ["-std=gnu11", "-O3", "-falign-loops=32", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared"]
AVX2 = ["-mavx2", "-mfma"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"]
VARIANTS = {"default": [], "avx2": AVX2, "avx512": AVX512}  # by what torch calls the processor's capability


class KernelHook(BuildHookInterface):
    """Build a library for every kind of processor that the wheel may meet."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and tell hatch what to put into the wheel."""
        built = [path for name, flags in VARIANTS.items() if (path := self.compile(name, flags))]
        if built:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
            build_data["artifacts"] += [str(path) for path in built]
        else:
            self.app.display_warning(
                "no C compiler found: multipartite will pool by torch's operations, which is slower"
            )

    def compile(self, name: str, flags: list[str]) -> Path | None:
        """Compile one variant, with threads where the compiler has them; where it is from the root, or None."""
        if flags and platform.machine().lower() not in ("x86_64", "amd64"):
            return None
        target = SOURCE.with_name(f"kernels-{name}.so")
        compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[:1]
        digest = hashlib.sha256((Path(self.root) / SOURCE).read_bytes()).hexdigest()
        for threads in (["-fopenmp"], ["-Wno-unknown-pragmas"]):
            options = [*FLAGS, f'-DDIGEST="{digest}"', *flags, *threads]
            command = [*compiler, *options, str(SOURCE), "-o", str(target), "-lm"]
            try:
                if subprocess.run(command, cwd=self.root, capture_output=True, check=False).returncode == 0:
                    return target
            except OSError:
                return None
        return None
