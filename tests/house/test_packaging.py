"""What is shipped: the package and nothing else, its commands, and a tidy repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import toolcall_middleware

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

TOP_LEVEL = {
    "pyproject.toml", "noxfile.py", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE",
    "toolcall_middleware", "tests", "examples", "docs",
}  # fmt: skip
HIDDEN = {".ci", ".github", ".gitignore", ".pre-commit-config.yaml"}
# Where some machine keeps its work. Put together, so that this file does not hold them.
MACHINE_PATHS = {"/" + "work/", "/" + "Users/", f"{ROOT.parent}/", f"{Path.home()}/."} - {"/" + "/"}
# Recorded requests and texts: what stands there is what somebody else's machine looked like.
DATA = ("tests/clients_data/", "tests/formats/prose/", "tests/formats/golden/")


def tracked() -> list[str]:
    """The files that git knows or would add."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return sorted({name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()})


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """The wheel, built as pip would build it, with the build backend that is installed."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.Path(path)


def contents(wheel: zipfile.Path) -> set[str]:
    return {name for name in wheel.root.namelist() if not name.endswith("/")}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.Path) -> None:
    names = contents(wheel)
    info = f"toolcall_middleware-{toolcall_middleware.__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"toolcall_middleware", info}
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "toolcall_middleware").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if name.startswith("toolcall_middleware/")} == sources
    assert f"{info}/licenses/LICENSE" in names


def test_the_wheel_is_typed_and_its_command_exists(wheel: zipfile.Path) -> None:
    assert "toolcall_middleware/py.typed" in contents(wheel)
    info = f"toolcall_middleware-{toolcall_middleware.__version__}.dist-info"
    entry_points = (wheel / info / "entry_points.txt").read_text(encoding="utf-8")
    assert entry_points.split() == ["[console_scripts]", "toolcall-middleware", "=", "toolcall_middleware.cli:main"]


def test_the_wheels_metadata_is_complete(wheel: zipfile.Path) -> None:
    info = f"toolcall_middleware-{toolcall_middleware.__version__}.dist-info"
    metadata = (wheel / info / "METADATA").read_text(encoding="utf-8")
    for line in (
        "License-Expression: Apache-2.0",
        "Requires-Python: >=3.11",
        f"Version: {toolcall_middleware.__version__}",
    ):
        assert f"\n{line}\n" in metadata
    assert "# toolcall-middleware" in metadata  # the README is the long description


def test_what_is_public_is_there() -> None:
    for name in toolcall_middleware.__all__:
        assert getattr(toolcall_middleware, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = toolcall_middleware.no_such_name


def test_the_middleware_costs_no_import_that_only_the_proxy_or_the_command_line_needs() -> None:
    code = (
        "import sys, toolcall_middleware\n"
        # Not all of starlette: its types alone cost nothing.
        "heavy = {'httpx', 'httpcore', 'uvicorn', 'argparse', 'rich', 'jsonschema', 'starlette.requests', 'anyio'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_each_import_of_the_package_is_a_declared_dependency() -> None:
    entries = list(PROJECT["dependencies"])
    for extra in ("hf", "limits", "local", "metrics", "otel", "redis", "tiktoken"):
        entries += PROJECT["optional-dependencies"][extra]
    declared = {re.split(r"[<>=\[ ]", entry)[0].replace("-", "_") for entry in entries}
    imported: dict[str, Path] = {}
    for path in (ROOT / "toolcall_middleware").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"^\s*(?:import|from) ([A-Za-z_]\w*)", text, re.MULTILINE):
            imported.setdefault(name, path)
    foreign = {name for name in imported if name not in sys.stdlib_module_names}
    # Come with jsonschema, whose types are their own; the package opentelemetry-api is imported by another name; httpx2
    # takes the place of httpx where it is installed.
    assert foreign <= declared | {"attrs", "jsonschema_specifications", "referencing", "opentelemetry", "httpx2"}


def test_the_top_level_holds_only_what_belongs_there() -> None:
    names = {name.split("/")[0] for name in tracked()}
    assert {name for name in names if not name.startswith(".")} <= TOP_LEVEL
    assert {name for name in names if name.startswith(".")} <= HIDDEN


def test_no_tracked_file_names_a_path_of_somebodys_machine() -> None:
    found = []
    for name in tracked():
        if name.startswith(DATA):
            continue
        text = (ROOT / name).read_bytes().decode("utf-8", "replace")
        found += [f"{name}: {path}" for path in MACHINE_PATHS if path in text]
    assert not found


def test_no_tracked_file_is_a_build_product_or_too_large() -> None:
    files = tracked()
    assert not [name for name in files if "node_modules/" in name or "__pycache__/" in name or name.endswith(".pyc")]
    assert not [name for name in files if (ROOT / name).stat().st_size > 1 << 20]


def test_the_changelog_tells_of_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(toolcall_middleware.__version__)} - \d{{4}}-\d\d-\d\d$", text, re.MULTILINE)


def test_the_license_is_the_whole_apache_license() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert len(text) > 10_000


def test_the_workflows_run_what_ci_runs_on_each_python_that_is_named() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert "run: bash .ci/run" in text
    (listed,) = re.findall(r"^        python: \[(.*)\]$", text, re.MULTILINE)
    classifiers = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", one)]
    assert re.findall(r'"([\d.]+)"', listed) == classifiers


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_each_action_is_pinned_to_a_commit_whose_version_is_told(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []


def test_what_is_not_used_is_not_imported() -> None:
    """`--version`, `--help` and completion wait for none of what a server needs, nor an app for the proxy."""
    printed = "import sys; print(*sorted({'asyncio', 'httpx', 'starlette', 'jsonschema'} & sys.modules.keys()))"
    for code, loaded in (
        ("import toolcall_middleware", ""),
        ("import toolcall_middleware.cli.dispatch", ""),
        ("from toolcall_middleware import ToolCallMiddleware; import sys; print('httpx' in sys.modules)", "False"),
        ("import toolcall_middleware as t; print(set(t.__all__) - set(dir(t)), hasattr(t, 'nothing'))", "set() False"),
    ):
        asked = f"{code}; {printed}" if not loaded else code
        ended = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=60)
        assert ended.stdout.strip() == loaded, code
