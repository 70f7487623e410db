"""A mutant: a small, plausible fault, applied by patching one function."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from penstock import broker
from tests.simulation.faults import Fault
from tests.simulation.scenario import Outcome, Scenario, run

# A broker imports much of itself when it is first needed. What is imported from a mutated module keeps the mutant.
for _module in pkgutil.walk_packages(broker.__path__, f"{broker.__name__}."):
    importlib.import_module(_module.name)


class Mutant(NamedTuple):
    name: str
    what: str
    scenario: type[Scenario]
    owner: Any
    """The class or module that has the function."""
    function: str
    line: str
    """What is replaced in the function's source; empty for a function that does nothing at all."""
    by: str
    seeds: int = 40
    """Within how many seeds it has to be found."""
    first_seed: int = 0
    """The first of them: what is rare is looked for where it is known to happen."""

    plan: tuple[Fault, ...] | None = None
    """Faults that bring it to light, where those of the seeds rarely do."""

    @property
    def tried(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    def run(self, seed: int) -> Outcome:
        return run(self.scenario, seed, None if self.plan is None else list(self.plan))

    @contextmanager
    def applied(self) -> Iterator[None]:
        original = inspect.getattr_static(self.owner, self.function)
        setattr(self.owner, self.function, self._changed(original))
        try:
            yield
        finally:
            setattr(self.owner, self.function, original)

    def _changed(self, original: Any) -> Any:
        if not self.line:
            return lambda *args, **options: None
        function: Any = original.fget if isinstance(original, property) else original
        function = getattr(function, "__func__", function)
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.line) == 1, f"{self.name}: {self.line!r} is not once in {self.function}"
        names: dict[str, Any] = {}
        code = "from __future__ import annotations\n" + source.replace(self.line, self.by)
        exec(compile(code, f"<mutant {self.name}>", "exec"), sys.modules[function.__module__].__dict__ | {}, names)
        return names[function.__name__]
