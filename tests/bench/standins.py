"""Imports a few modules of a large package by themselves; everything else they ask for is a name with nothing in it.

An engine's parser is some hundred lines of Python, but its file imports the request model, which imports the engine's
configuration, which imports torch. What a parser computes with is loaded as it was published (`real`); of the rest
only the names are needed, for annotations and `isinstance`. A name that stands in cannot be called: a parser that used
one would fail, not become faster.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import sys
import types
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from typing import Any, NoReturn

from pydantic_core import core_schema

CANNOT_LOAD = (ImportError, AttributeError, TypeError, RuntimeError, SyntaxError)
"""What comes of importing a version that is arranged in another way."""


class _Name(type):
    """A class with nothing in it, and so is every attribute of it."""

    def __getattr__(cls, name: str) -> _Name:
        if name.startswith("_"):
            raise AttributeError(name)
        return _name(name, cls.__module__)

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{cls.__module__}.{cls.__qualname__} stands in for the real one: it cannot be called")


def _name(name: str, module: str) -> _Name:
    def schema(*_: Any) -> core_schema.CoreSchema:
        return core_schema.any_schema()  # as the type of a pydantic model's field: anything

    return _Name(name, (), {"__module__": module, "__get_pydantic_core_schema__": schema})


class _Finder(MetaPathFinder, Loader):
    """Finds the modules in `real` where they lie; packages around them are empty, and so is everything else."""

    def __init__(self, root: Path, real: frozenset[str], absent: Sequence[str]) -> None:
        self._parents = {name.rsplit(".", up)[0] for name in real for up in range(1, name.count(".") + 1)}
        self._root, self._real = root, real
        self.tops = {*absent, *(name.partition(".")[0] for name in real)}

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in self.tops:
            return None
        place = self._root.joinpath(*fullname.split(".")[1:])
        if fullname in self._real:
            return importlib.machinery.PathFinder.find_spec(fullname, [str(place.parent)])
        spec = importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        spec.submodule_search_locations = [str(place)] if fullname in self._parents else []
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module: Any = types.ModuleType(spec.name)

        def attribute(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            full = f"{spec.name}.{name}"
            if full in self._real or full in self._parents:
                return importlib.import_module(full)
            setattr(module, name, _name(name, spec.name))
            return getattr(module, name)

        module.__getattr__ = attribute
        module.__all__ = []
        return module  # type: ignore[no-any-return] # built as Any, to be given attributes

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


@contextlib.contextmanager
def alone(root: Path, real: frozenset[str], absent: Sequence[str] = ()) -> Iterator[None]:
    """Within it, the package that lies in `root` consists of the modules `real`. Packages in `absent` are all names.

    Afterwards the absent ones are absent again (or what they were); the package stays as it is, for imports inside of
    its functions.
    """
    finder = _Finder(root, real, absent)
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in finder.tops}
    for name in before:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] in absent]:
            del sys.modules[name]
        sys.modules.update({name: module for name, module in before.items() if name.partition(".")[0] in absent})
