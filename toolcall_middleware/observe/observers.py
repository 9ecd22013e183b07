"""The observers that the settings ask for, each imported only then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..settings import Settings
from .report import Observer, Report


class Observers:
    """All who are told of a request."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.all = tuple(observers)

    def begin(self, report: Report, headers: Mapping[str, str]) -> None:
        """A request has come."""
        for observer in self.all:
            observer.begin(report, headers)

    def end(self, report: Report) -> None:
        """It has ended."""
        for observer in self.all:
            observer.end(report)


def observers_of(settings: Settings, more: Sequence[Observer] = ()) -> Observers | None:
    """Who is to be told, by the settings and `more`; None where that is nobody.

    Raises SettingsError where the extra is not installed that a setting wants.
    """
    found = list(more)
    if settings.metrics != "off":
        from .metrics import shared_metrics

        found.append(shared_metrics())
    if settings.otel:
        from .spans import Spans

        found.append(Spans())
    if settings.trace_dir is not None:
        from .traces import TraceFiles

        found.append(
            TraceFiles(
                Path(settings.trace_dir),
                sample=settings.trace_sample,
                max_bytes=settings.trace_max_bytes,
                max_total=settings.trace_dir_max_bytes,
            )
        )
    return Observers(found) if found else None
