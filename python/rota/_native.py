"""The shared library with Rota's learning environments (`crates/python`), loaded when it is first needed.

It is looked for beside this package, where a wheel has it, then in the `target` folder of a checkout. `ROTA_LIBRARY` names
another one.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
from pathlib import Path
from typing import Any

NAME = "librota_python.so"
INTERFACE = 1
TEXT_BYTES = 4096


class NoLibrary(ImportError):
    """There is no library with the environments, or one of another version."""


class Arrays(ctypes.Structure):
    """Where the arrays of environments lie (`Arrays` in crates/python/src/lib.rs)."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("environments", "rows", "features", "outcome_figures")),
        *(
            (name, ctypes.c_void_p)
            for name in ("observations", "legal", "rewards", "terminated", "last_observations", "outcomes")
        ),
    )


def candidates() -> list[Path]:
    """The files that may be the library, the best first."""
    named = os.environ.get("ROTA_LIBRARY")
    if named:
        return [Path(named)]
    here = Path(__file__).resolve().parent
    built = [here.parents[1] / "target" / folder / NAME for folder in ("release", "debug", "debug/deps")]
    built = [path for path in built if path.exists()]
    return [here / NAME, *sorted(built, key=lambda path: -path.stat().st_mtime)]


@functools.lru_cache(maxsize=1)
def library() -> Any:
    """The library, ready to be called."""
    paths = candidates()
    found = next((path for path in paths if path.exists()), None)
    if found is None:
        raise NoLibrary(
            f"there is no {NAME}, which has Rota's learning environments: looked for {', '.join(map(str, paths))}; "
            "install Rota's wheel, or build it in a checkout with `cargo build --release`"
        )
    try:
        loaded = ctypes.CDLL(str(found))
        version = int(loaded.rota_interface())
    except (OSError, AttributeError) as error:
        raise NoLibrary(f"{found} cannot be used: {error}") from error
    if version != INTERFACE:
        raise NoLibrary(f"{found} has interface {version}; this package needs {INTERFACE}: build both from one version")
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    for name, result, arguments in (
        ("model_open", pointer, (text, pointer, text, size)),
        ("model_free", None, (pointer,)),
        ("model_scores", ctypes.c_int, (pointer, pointer, size, pointer)),
        ("vector_new", pointer, (text, size, text, size)),
        ("vector_free", None, (pointer,)),
        ("vector_arrays", None, (pointer, ctypes.POINTER(Arrays))),
        ("vector_names", None, (pointer, text, size)),
        ("vector_reset", ctypes.c_int, (pointer, ctypes.c_uint64, text, size)),
        ("vector_step", ctypes.c_int, (pointer, pointer, size, text, size)),
    ):
        function = getattr(loaded, f"rota_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded


class Vector:
    """Environments in the library, freed when nobody holds them or one of their arrays any more."""

    def __init__(self, settings: dict[str, object]) -> None:
        self._pointer = None
        self._library = library()
        self._text = ctypes.create_string_buffer(TEXT_BYTES)
        document = json.dumps(settings).encode()
        self._pointer = self._library.rota_vector_new(document, len(document), self._text, TEXT_BYTES)
        if not self._pointer:
            raise ValueError(self._reason())
        self.arrays = Arrays()
        self._library.rota_vector_arrays(self._pointer, ctypes.byref(self.arrays))
        self._library.rota_vector_names(self._pointer, self._text, TEXT_BYTES)
        self.features, self.figures = (tuple(names) for names in json.loads(self._reason()))

    def memory(self, name: str, kind: Any, count: int) -> Any:
        """An array of the library as a buffer, which keeps the environments alive."""
        buffer = (kind * count).from_address(getattr(self.arrays, name))
        buffer.owner = self
        return buffer

    def reset(self, seed: int) -> None:
        if self._library.rota_vector_reset(self._pointer, seed, self._text, TEXT_BYTES):
            raise ValueError(self._reason())

    def step(self, address: int, count: int) -> None:
        """One step with the actions (64-bit integers) at this address."""
        if self._library.rota_vector_step(self._pointer, address, count, self._text, TEXT_BYTES):
            raise ValueError(self._reason())

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self._library.rota_vector_free(self._pointer)
            self._pointer = None

    def _reason(self) -> str:
        return self._text.value.decode(errors="replace")


class Scorer:
    """A model file in the library, for rows of the features that these environments have."""

    def __init__(self, file: str, vector: Vector) -> None:
        self._pointer = None
        self._library = library()
        text = ctypes.create_string_buffer(TEXT_BYTES)
        self._pointer = self._library.rota_model_open(os.fsencode(file), vector._pointer, text, TEXT_BYTES)
        if not self._pointer:
            raise ValueError(text.value.decode(errors="replace"))

    def scores(self, rows: Any) -> Any:
        """The score of each row of an array of 32-bit numbers."""
        import numpy

        rows = numpy.ascontiguousarray(rows, dtype=numpy.float32)
        scores = numpy.empty(len(rows), dtype=numpy.float32)
        if self._library.rota_model_scores(self._pointer, rows.ctypes.data, len(rows), scores.ctypes.data):
            raise ValueError("the model could not be applied")
        return scores

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self._library.rota_model_free(self._pointer)
            self._pointer = None
