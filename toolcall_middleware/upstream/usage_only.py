"""A request without tools that asks for usage: its body, sent on as it is, and its answer, to which usage is added."""

from __future__ import annotations

from ..response.plan import Plan
from ..settings import Settings
from ..usage.meter import UsageMeter
from ..usage.pending_count import meter_for, model_of
from ..usage.tap import UsageTap
from ..wire import openai
from .backend_memory import BackendMemory

_ASKED = "stream_options"
_MAX_READ = 4096  # bytes of a refusal


class Tapped:
    """One such request. `first` gives its body; `next_body` is set where the backend is to be asked again.

    tap: what its stream goes through. usage: what that is counted with. model: that it names. defer: see `UsageTap`.
    """

    def __init__(self, body: bytes, settings: Settings, memory: BackendMemory, *, defer: bool) -> None:
        self.model = model_of(body)
        self.usage: UsageMeter = meter_for(settings, self.model, memory)
        self.next_body: bytes | None = None
        self._body = body
        self._settings = settings
        self._memory = memory
        self._defer = defer
        self._unasked = False  # it was asked again without stream_options
        self.tap = self._new_tap()

    def _new_tap(self) -> UsageTap:
        settings = self._settings
        return UsageTap(self.usage, settings.max_response_bytes, replace=settings.usage == "count", defer=self._defer)

    def first(self) -> bytes:
        """The body for the backend."""
        unasked = self._memory.refuses(self.model, _ASKED)
        body = openai.without_field(self._body, _ASKED) if unasked else self._body
        self.usage.sent(body)
        return body

    def plan_of(self, status: int, *, is_stream: bool, plain: bool) -> Plan:
        """The plan for a response. is_stream: by its content type. plain: it has no content coding."""
        if status in {400, 422} and plain:
            return Plan.BUFFER
        if self._unasked and status == 200:
            # Now it is sure that this was the fault, and no other that was told with the request's own words.
            self._memory.refuse(self.model, _ASKED)
        return Plan.TAP if status == 200 and is_stream and plain else Plan.PASS

    def retries(self, data: bytes) -> bool:
        """The backend refuses the request. It may be for the usage that it asks for: then it is asked without."""
        known = self._memory.refuses(self.model, _ASKED)
        if _ASKED.encode() not in data[:_MAX_READ].lower() or self._unasked or known:
            return False
        self._unasked = True
        self.usage = meter_for(self._settings, self.model, self._memory)
        self.tap = self._new_tap()
        self.next_body = openai.without_field(self._body, _ASKED)
        self.usage.sent(self.next_body)
        return True
