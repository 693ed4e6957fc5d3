"""Where GPU samples come from: NVML, else the nvidia-smi command, else nowhere."""

from __future__ import annotations

from collections.abc import Mapping

from vdoctor.live.nvidia_smi import NvidiaSmi
from vdoctor.live.nvml import Nvml


def open_gpus(interval: float, env: Mapping[str, str] | None) -> Nvml | NvidiaSmi | None:
    """The best source that answers; None on a machine without NVIDIA GPUs. Call it in the thread that will use it."""
    nvml = Nvml(env)
    if nvml.error is None:
        if nvml.there:
            return nvml
        nvml.close()
        return None
    command = NvidiaSmi(interval, env)
    return command if command.error is None else None
