"""What keeps the house easy to enter: files, classes and folders stay small enough to hold in the head."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
from pathlib import Path

import toolcall_middleware
from tests import ratchet

ROOT = Path(toolcall_middleware.__file__).parent
MAX_FILE = 700  # one concept in one file is better than six files of one concept
MAX_CLASS = 350  # lines, counted over the bases that are ours
MAX_FOLDER = 16  # modules


def test_the_product_does_not_grow() -> None:
    """No room has more lines than `tests/ratchet.json` allows, and no request enters more files.

    `python -m tests.ratchet` writes the counts of today.

    A commit that lowers a count lowers its number. A commit that raises one says why.
    """
    allowed = json.loads(ratchet.LIMITS.read_text("utf-8"))
    counted = ratchet.count()
    assert counted.keys() == allowed.keys()
    assert not {name: number for name, number in counted.items() if number > allowed[name]}


def modules() -> list[str]:
    found = pkgutil.walk_packages(toolcall_middleware.__path__, f"{toolcall_middleware.__name__}.")
    return [module.name for module in found if not module.name.endswith("__main__")]


def class_lines(cls: type) -> int:
    """The lines of a class and of all its bases within the package, each counted once."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith(f"{toolcall_middleware.__name__}.")]
    return sum(len(inspect.getsourcelines(base)[0]) for base in ours)


def test_no_class_is_a_tower() -> None:
    too_large = {}
    for name in modules():
        module = importlib.import_module(name)
        for cls in vars(module).values():
            if isinstance(cls, type) and cls.__module__ == name and (lines := class_lines(cls)) > MAX_CLASS:
                too_large[f"{name}.{cls.__name__}"] = lines
    assert not too_large


def test_no_file_is_too_long() -> None:
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text("utf-8").splitlines()) for path in files()}
    assert not {path: lines for path, lines in lengths.items() if lines > MAX_FILE}


def test_no_folder_of_mixed_things_is_too_full() -> None:
    folders: dict[str, int] = {}
    for path in files():
        if path.name != "__init__.py":
            folder = path.parent.relative_to(ROOT).as_posix()
            folders[folder] = folders.get(folder, 0) + 1
    assert not {folder: count for folder, count in folders.items() if count > MAX_FOLDER}


def test_no_object_is_asked_by_a_name_made_of_text_for_what_its_type_does_not_have() -> None:
    """`getattr(parser, "feed")` hides a protocol. Formats of other packages are the one thing of unknown shape."""
    asked = {
        f"{path.relative_to(ROOT).as_posix()}: {ast.unparse(node)}"
        for path in files()
        if path.relative_to(ROOT).parts[0] in {"response", "parsing", "exchange.py"}
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr"
    }
    assert not asked


def files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))
