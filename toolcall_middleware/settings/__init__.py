"""The settings of one app: the table of options, where values come from, and what a request or a tenant may change."""

from .settings import (
    ENV_PREFIX,
    MAXIMA,
    OPTIONS,
    PROFILES,
    Option,
    Settings,
    hide_login,
    library_folder,
    read_variable,
    show,
)

__all__ = [
    "ENV_PREFIX",
    "MAXIMA",
    "OPTIONS",
    "PROFILES",
    "Option",
    "Settings",
    "hide_login",
    "library_folder",
    "read_variable",
    "show",
]
