"""The settings of one app: the table of options, where values come from, and what a request or a tenant may change."""

from .options import MAXIMA, OPTIONS, PROFILES
from .settings import (
    COMMAND_LINE,
    ENV_PREFIX,
    Settings,
    hide_login,
    library_folder,
    read_variable,
    show,
    whole_path,
)

__all__ = [
    "COMMAND_LINE",
    "ENV_PREFIX",
    "MAXIMA",
    "OPTIONS",
    "PROFILES",
    "Settings",
    "hide_login",
    "library_folder",
    "read_variable",
    "show",
    "whole_path",
]
