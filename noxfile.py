"""The loops of this project: `nox -s quick`, `test`, `style`, `lint`, `ci`. Each session makes its own environment."""

import nox

nox.options.sessions = ["quick", "lint"]
nox.options.reuse_existing_virtualenvs = True
nox.options.default_venv_backend = "uv|virtualenv"

# No network, no clients, no servers: what reads requests, writes prompts and parses answers.
QUICK = (
    "parsing", "formats", "json_schema", "request", "upstream", "response", "usage", "settings", "wire", "apis",
    "exchange", "observe", "test_library.py",
)  # fmt: skip


@nox.session
def quick(session: nox.Session) -> None:
    """All that needs no server: half a minute. Arguments go to pytest: `nox -s quick -- -k hermes`."""
    session.install("-e", ".[test]")
    folders = [f"tests/{room}" for room in QUICK]
    command = ["pytest", "-q", "-n", "auto", "--dist", "worksteal", *folders, *session.posargs]
    session.run(*command, env={"TEST_QUICK": "1"})


@nox.session
def test(session: nox.Session) -> None:
    """All tests, with real clients, servers and Node. Arguments go to pytest."""
    session.install("-e", ".[test,clients]")
    session.run("npm", "ci", "--prefix", "tests/clients/ai_sdk", "--no-audit", "--no-fund", external=True)
    session.run("pytest", "-n", "auto", "--dist", "worksteal", *session.posargs)


@nox.session
def thorough(session: nox.Session) -> None:
    """Each golden cut at every place, each ordinary text read by every format: half an hour, before a release."""
    session.install("-e", ".[test]")
    session.run(
        "pytest",
        "-n",
        "auto",
        "--dist",
        "worksteal",
        "tests/formats",
        "tests/hosts",
        "tests/apis",
        "tests/upstream",
        *session.posargs,
        env={"TEST_THOROUGH": "1"},
    )


@nox.session
def style(session: nox.Session) -> None:
    """Style and format alone: seconds. Installs one package."""
    session.install("ruff>=0.17,<0.18")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def lint(session: nox.Session) -> None:
    """Style, format and types."""
    session.install("-e", ".[test,lint]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site, in docs/_build/html. A warning is an error."""
    session.install("-e", ".[docs]")
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html", *session.posargs)


@nox.session(venv_backend="none")
def ci(session: nox.Session) -> None:
    """All that CI checks, in a copy of the tree."""
    session.run("bash", ".ci/run", external=True)
