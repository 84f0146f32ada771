"""What cannot be grown."""

from __future__ import annotations

from .._errors import RotaError


class CannotGrow(RotaError, ValueError):
    """The change cannot be made. Model and optimiser are as they were."""
