"""`gymnasium.make("rota/…")` works once both packages are imported, whichever came first; neither imports the other.

Where Gymnasium is not loaded yet, its import is awaited: a finder that finds nothing itself lets the usual ones find the
package, and registers the environments when the package has been loaded. An installed wheel also names them to
Gymnasium as a plugin.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Optional

AWAITED = "gymnasium"
ENVIRONMENTS = {"rota/Live-v0": "rota._live:LiveEnv", "rota/Scheduling-v0": "rota._gymnasium:SchedulingEnv"}


class _Awaiting(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname != AWAITED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(AWAITED)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                load(module)
                register()

            spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec


def register() -> None:
    """Makes the environments known to Gymnasium, once."""
    from gymnasium.envs.registration import register as add
    from gymnasium.envs.registration import registry

    for name, place in ENVIRONMENTS.items():
        if name not in registry:
            add(name, entry_point=place)


def register_when_loaded() -> None:
    if AWAITED in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _Awaiting())
