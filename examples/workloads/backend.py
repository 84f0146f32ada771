"""What the example workloads compute with: the best of CUDA, PyTorch on the CPU, NumPy and plain Python that is here.

`ROTA_EXAMPLE_BACKEND=torch|numpy|pure` asks for one of them; one that is asked for and missing is an error, never replaced.
Nothing is imported before `choose` is called, because PyTorch takes seconds and a job may be told to stop meanwhile.
On the CPU a job has one thread, because several may share the machine; `OMP_NUM_THREADS` gives it more.
"""

import importlib
import os
import warnings

VARIABLE = "ROTA_EXAMPLE_BACKEND"
CHOICES = ("torch", "numpy", "pure")


class BackendError(Exception):
    """The backend that was asked for cannot be had."""


class Backend:
    """One way of computing. `kind` is `cuda`, `torch` (on the CPU), `numpy` or `pure`; `library` the module, if there is one."""

    def __init__(self, kind, library=None):
        self.kind = kind
        self.library = library

    @property
    def device(self):
        """PyTorch's name of where tensors live: the first GPU that the queue has left visible, or the CPU."""
        return "cuda:0" if self.kind == "cuda" else "cpu"

    def __str__(self):
        if self.kind == "cuda":
            return f"PyTorch on {self.library.cuda.get_device_name(0)}"
        return {"torch": "PyTorch on the CPU", "numpy": "NumPy", "pure": "plain Python"}[self.kind]


def choose():
    """The backend asked for in the environment, or else the best there is."""
    asked = os.environ.get(VARIABLE, "")
    if asked and asked not in CHOICES:
        raise BackendError(f"{VARIABLE} is `{asked}`; it may be {', '.join(CHOICES)}")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # Read when the libraries are loaded.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # PyTorch is used without it.
    for name in [asked] if asked else CHOICES:
        if name == "pure":
            return Backend("pure")
        try:
            library = importlib.import_module(name)
        except (ImportError, OSError) as error:  # OSError: PyTorch without the CUDA libraries it was built for.
            if asked:
                raise BackendError(f"{VARIABLE} is `{asked}`, which cannot be loaded: {error}") from error
            continue
        if name == "torch":
            return Backend("cuda" if library.cuda.is_available() else "torch", library)
        return Backend("numpy", library)
    raise AssertionError("plain Python is always there")
