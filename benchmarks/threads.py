"""As many threads for XLA as for PyTorch. Import this before JAX: XLA counts its threads when it starts."""

import os
from types import ModuleType

COUNT = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

os.environ["PJRT_NPROC"] = str(COUNT)  # XLA's pool on the CPU; the programs started from here inherit it


def torch() -> ModuleType | None:
    """PyTorch with that many threads, None where it is not installed."""
    try:
        import torch
    except ModuleNotFoundError:
        return None
    torch.set_num_threads(COUNT)
    return torch
