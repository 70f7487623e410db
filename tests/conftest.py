from __future__ import annotations

from hypothesis import settings

# Shared machines pause at will: how long an example takes says nothing about it.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")
