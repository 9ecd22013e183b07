"""The table of settings: one row says all there is to know of a setting.

Everything else is derived from it: the profiles, what a tenant may be given at most, what a request may change, the
types in `keywords.py` (`python -m tests.typed_settings` writes them), and the table in README.
"""

# ruff: noqa: FBT003 - a row of the table is read by its columns
from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from . import readers
from .readers import Reader, choice, flag, integer


class Strictness(enum.Enum):
    """How the values of a setting compare, where they are not levels."""

    OPERATOR = "operator"
    """A request does not set it at all."""
    FREE = "free"
    """It says how, not how much: every value is as safe as any other."""
    FEWER = "fewer"
    """A smaller number is stricter; none is the loosest."""
    SUBSET = "subset"
    """Patterns of names: what they admit may only become less."""


Levels = tuple[tuple[Any, ...], ...]
"""From the loosest to the strictest; values of one level are as strict as each other."""


@dataclass(frozen=True, slots=True)
class Option:
    """One setting."""

    name: str
    default: Any
    reader: Reader
    room: str
    """The part of the documentation where it stands."""
    strictness: Strictness | Levels
    """Which of two values is stricter: a request may tighten, never loosen."""
    help: str
    profiles: Mapping[str, Any] = field(default_factory=dict)
    """Its value by profile, where that is not the default."""
    most: Mapping[str, int] = field(default_factory=dict)
    """The most that a tenant may be given under a profile, whatever its table says."""
    secret: bool = False

    @property
    def allowed(self) -> str:
        """The values that it takes, in words."""
        return self.reader.allowed

    def read(self, value: Any) -> Any:
        """The setting's value for a string or a Python value. Raises ValueError, TypeError or KeyError."""
        return self.reader.read(value)


OPERATOR, FREE, FEWER, SUBSET = Strictness
ON: Final[Levels] = ((False,), (True,))
_KIB = 1024
_MIB = 1024 * _KIB

FORWARDED = (
    "/chat/completions", "/completions", "/messages", "/messages/count_tokens", "/responses", "/responses/*",
    "/embeddings", "/models", "/models/*", "/moderations", "/audio/*", "/images/*",
    "/rerank", "/v2/rerank", "/score", "/pooling", "/classify", "/completion", "/infill", "/generate",
    "/generate_stream", "/invocations", "/tokenize", "/detokenize", "/apply-template", "/tokenizer_info",
    "/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/tags", "/api/version",
    "/health", "/healthz", "/health_generate", "/ping", "/version", "/info", "/get_model_info",
)  # fmt: skip
"""What inference servers offer to clients. Paths of administration (keys, files, weights, metrics) are not in it."""

_ROWS = (
    # A request that turns everything off would slip past the checks of the answer.
    Option("mode", "prompt", choice("prompt", "native", "auto", "off"),
           "prompt", (("off",), ("prompt", "native", "auto")),
           "`prompt`: tools go into the prompt, calls are read from text. `off`: everything passes."),
    Option("format", "auto", readers.FORMAT, "prompt", FREE, "How calls are written and read."),
    Option("template", None, readers.TEMPLATE, "prompt", OPERATOR,
           "A checkpoint's chat template, from which `format=template` derives how calls are written; `auto` uses it "
           "where a model's name tells no family. Without it `auto` uses the template beside the tokenizer that is set "
           "(`hf:`), and the one that a llama.cpp upstream has at `/props`; `none` keeps it from both."),
    Option("send", "chat", choice("chat", "completions"), "prompt", OPERATOR,
           "`completions`: the model's own chat template (`template`) writes the prompt, tools and history included, "
           "and the backend is asked for a text completion."),
    Option("profile", "compat", choice("compat", "gateway", "strict"), "prompt", OPERATOR,
           "A preset of other settings."),
    Option("paths", ("/chat/completions",), readers.PATHS,
           "prompt", OPERATOR, "Which paths are intercepted (POST only)."),
    Option("faces", ("auto",), readers.FACES, "prompt", OPERATOR,
           "APIs that clients may speak. `auto`: all in the proxy; in an app `chat`, and the others where a request "
           "shows that it means them."),
    Option("constrain", "auto",
           choice("auto", "off", "response_format", "structured_outputs", "structural_tag", "llama_cpp"),
           "prompt", FREE,
           "What to ask of the backend's constrained decoding for `required`, a named tool or `strict: true`. "
           "A constrained list of calls is held behind the first until each is complete; one that is cut is dropped."),
    Option("retries", 1, integer(0, optional=False), "prompt", FEWER,
           "New tries when `required` or a named tool got no call, a call does not fit its tool's schema (`strict: "
           "true`, `validate_arguments=retry`), or a text is not the JSON that `response_format` asks for."),
    Option("structured", "auto", choice("auto", "off", "prompt"), "prompt", FREE,
           "With tools in the prompt and a `response_format`: the final text is held to its end, taken out of a code "
           "fence, checked against the schema, and asked for again (`retries`) where it does not fit. Without tools "
           "the field passes, and it is done so where the backend refuses the field by name; `prompt`: always. "
           "`off`: it is asked for in words alone."),
    Option("tools_budget", None, readers.TOKENS, "prompt", FREE,
           "Tokens that tools may take in a prompt. Above it their schemas are compacted, then descriptions are "
           "shortened, then the last tools are shown by one line each, and the model gets a definition with "
           "`find_tools`. `auto`: a third of the backend's window."),
    Option("choose", False, flag(), "prompt", FREE,
           "With tools in the prompt and `tool_choice: auto`, the answer is constrained to a call of a tool or of "
           "`respond(text)`, whose text is the answer's: for models that never call by themselves."),
    Option("parallel", "client", choice("client", "never"), "prompt", (("client",), ("never",)),
           "Whether several calls may come in one answer."),
    Option("unknown_tool", "text", choice("text", "drop", "forward", "error"),
           "parsing", (("forward",), ("text", "drop"), ("error",)), "A call of a name that is not offered."),
    Option("malformed_arguments", "repair", choice("repair", "forward", "text", "error"),
           "parsing", (("repair",), ("forward",), ("text",), ("error",)),
           "Arguments that are not JSON. `repair`: text where they are no object. `forward`: as the model wrote them, "
           "for clients that repair them.",
           profiles={"strict": "error"}),
    Option("coerce_arguments", True, flag(), "parsing", FREE,
           "A string where a tool's schema admits none, but what it holds, leaves as that: `\"2\"` as `2`."),
    Option("repair_names", True, flag(), "parsing", FREE,
           "A name that means exactly one offered tool, but for case, separators and prefixes such as `functions.`,"
           " calls that."),
    Option("stream_arguments", True, flag(), "parsing", ((True,), (False,)),
           "`true`: fragments as the model writes them. `false`: a call goes out when it is complete and valid."),
    Option("reasoning", "ignore", choice("ignore", "parse"), "parsing", FREE, "Markup inside reasoning."),
    Option("reasoning_field", None, readers.REASONING_FIELD,
           "parsing", FREE, "Where reasoning found in the text goes; none leaves it in content as written."),
    Option("reasoning_start", "auto", choice("auto", "open", "closed"), "parsing", FREE,
           "Whether answers begin in a thought that the chat template has opened. `auto`: by the model's name, and by "
           "its first `</think>` without a beginning."),
    Option("prose", "keep", choice("keep", "drop"), "parsing", FREE, "Text beside calls."),
    Option("messages", "plain", choice("plain", "keep"), "prompt", FREE,
           "How history reaches a text backend; `keep` rewrites only messages with calls or results."),
    Option("system_role", "system", choice("system", "user"), "prompt", FREE,
           "For templates that have no system role."),
    Option("special_tokens", "auto", choice("auto", "on", "off"), "prompt", OPERATOR,
           "Whether `skip_special_tokens: false` is sent for formats whose markers are special tokens."),
    Option("validate_arguments", "off", choice("off", "warn", "error", "retry"),
           "parsing", (("off",), ("warn",), ("retry",), ("error",)),
           "The finished call against the tool's schema, before the client sees it. Calls of tools with `strict: true` "
           "are checked under `off` and `warn` too, and asked for again (`retries`)."),
    Option("usage", "auto", choice("auto", "backend", "count", "off"), "usage", OPERATOR,
           "`auto`: the backend's own numbers, counted where it gives none."),
    Option("tokenizer", "approximate", readers.TOKENIZER,
           "usage", OPERATOR, "What counts tokens where the backend does not."),
    Option("drop_params", (), readers.NAMES, "prompt", OPERATOR, "Request fields that are not sent on."),
    Option("max_tools", 128, integer(0, optional=True), "guard", FEWER, "Tools in a request."),
    Option("max_tool_name_length", 64, integer(1, optional=True), "guard", FEWER, "Characters in a tool's name."),
    Option("tool_name_pattern", None, readers.REGEX, "guard", OPERATOR,
           "What the names of tools must match, as a regular expression.",
           profiles={"gateway": "^[a-zA-Z0-9_-]+$"}),
    Option("max_description_length", None, integer(0, optional=True), "guard", FEWER,
           "Characters in a description.", profiles={"gateway": 1024}, most={"gateway": 4096}),
    Option("max_schema_depth", None, integer(1, optional=True), "guard", FEWER,
           "Levels of a tool's schema.", profiles={"gateway": 5}, most={"gateway": 10}),
    Option("max_arguments_bytes", 4 * _MIB, integer(2, optional=True), "guard", FEWER,
           "Bytes of one call's arguments.", profiles={"gateway": 64 * _KIB}, most={"gateway": 256 * _KIB}),
    Option("max_tool_calls", 128, integer(1, optional=True), "guard", FEWER,
           "Calls in an answer; generation stops there.", profiles={"gateway": 20}, most={"gateway": 50}),
    Option("max_tool_rounds", None, integer(1, optional=True), "guard", FEWER,
           "Assistant turns with calls in the history."),
    Option("max_repeated_calls", None, integer(1, optional=True), "guard", FEWER,
           "The same call with the same arguments and result so often in a row: the model is told; once more is a 422.",
           profiles={"gateway": 3}),
    Option("max_messages", None, integer(1, optional=True), "guard", FEWER, "Messages in a request."),
    Option("max_result_bytes", None, integer(1, optional=True), "guard", FEWER, "Longer tool results are truncated."),
    # It was obeyed before the request could be read; so was `upload_timeout`.
    Option("max_request_bytes", 32 * _MIB, integer(1, optional=True), "guard", OPERATOR, "Bytes of a request."),
    Option("upload_timeout", 60.0, readers.OPTIONAL_SECONDS, "guard", OPERATOR,
           "Longest wait for the next piece of a request's body, which may lag behind 1 KiB a second by as much."),
    Option("max_response_bytes", 64 * _MIB, integer(1, optional=True), "guard", FEWER,
           "Bytes of a whole answer, and of a streamed one of Responses, which is kept for its last event."),
    Option("allowlist", (), readers.PATTERNS, "guard", SUBSET, "Tools that may be used."),
    Option("allowlist_mode", "off", choice("enforce", "warn", "off"), "guard", (("off",), ("warn",), ("enforce",)),
           "What the list does; `off`: nothing."),
    Option("rate_limit", None, readers.RATE, "guard", OPERATOR, "Tool calls of a tenant in a time; "
           "an answer with five calls counts five. Nothing is reserved while it runs."),
    Option("request_limit", None, readers.RATE, "guard", OPERATOR,
           "Requests of a tenant in a time, with or without tools, on every path but those that are only read (GET)."),
    Option("token_limit", None, readers.RATE, "guard", OPERATOR,
           "Tokens of prompts and answers of a tenant in a time, known at an answer's end."),
    Option("rate_limit_storage", "memory://", readers.STORAGE,
           "guard", OPERATOR, "Where they are counted; several machines share a Redis.", secret=True),
    Option("rate_limit_failure", "open", choice("open", "closed"), "guard", OPERATOR,
           "When the storage is down: requests pass uncounted, or are refused."),
    Option("tenant_header", "authorization", readers.HEADER, "guard", OPERATOR, "What tells tenants apart."),
    Option("tenants_file", None, readers.PATH, "guard", OPERATOR, "TOML with settings by tenant."),
    Option("arguments_as_object", False, flag(), "strict", ON,
           "Arguments as a JSON object, not a string.", profiles={"strict": True}),
    Option("rewrite_ids", False, flag(), "strict", ON, "Own call ids in native mode too.", profiles={"strict": True}),
    Option("require_descriptions", False, flag(), "strict", ON,
           "Tools and parameters must be described.", profiles={"strict": True}),
    Option("refuse_deprecated", False, flag(), "strict", ON,
           "`functions` and `function_call` are refused.", profiles={"strict": True}),
    Option("strict_names", False, flag(), "strict", ON,
           "Names of tools must match `^[a-zA-Z0-9_]+$`.", profiles={"strict": True}),
    Option("strict_tools", False, flag(), "strict", ON,
           "A tool has its `type`, and `parameters` whose root is of type object.", profiles={"strict": True}),
    Option("strict_schemas", False, flag(), "strict", ON,
           "A tool with `strict: true` is held to OpenAI's rules for it.", profiles={"strict": True}),
    Option("strict_ids", False, flag(), "strict", ON,
           "Call ids in the history must match `^call_[a-zA-Z0-9]+$`.", profiles={"strict": True}),
    Option("strict_results", False, flag(), "strict", ON,
           "Every call in the history has one result, right behind it and with content; ids are used once.",
           profiles={"strict": True}),
    Option("call_index", False, flag(), "guard", ON,
           "Calls of whole answers have an `index`, as those of streams.", profiles={"gateway": True}),
    Option("extension_field", None, readers.EXTENSION,
           "guard", OPERATOR, "Warnings, and why no call came, are added to answers under this key.",
           profiles={"gateway": "_toolcall"}),
    Option("upstream_url", None, readers.URL, "proxy", OPERATOR,
           "The upstream's base address, `/v1` included; a client's leading `/v1` is not added to it."),
    Option("upstream_api", "openai", choice("openai", "anthropic", "google"), "proxy", OPERATOR,
           "What the upstream speaks."),
    Option("upstream_ids", None, readers.ID_FORM, "proxy", OPERATOR,
           "The form of call ids that the upstream demands; `mistral`: nine letters and digits."),
    Option("upstream_key", None, readers.KEY, "proxy", OPERATOR,
           "Sent to the upstream instead of the client's.", secret=True),
    Option("upstreams_file", None, readers.PATH, "proxy", OPERATOR, "TOML with several upstreams."),
    Option("upstream_timeout", 300.0, readers.SECONDS, "proxy", OPERATOR, "Longest wait for a next byte."),
    Option("model_aliases", (), readers.ALIASES, "proxy", OPERATOR,
           "`PATTERN=NAME`: models under other names, first match wins; clients see their own name again."),
    Option("default_max_tokens", 8192, integer(1, optional=False), "proxy", OPERATOR,
           "Length of an answer where the client gives none and the upstream's API wants one (Anthropic's)."),
    Option("upstream_first_byte_timeout", 60.0, readers.OPTIONAL_SECONDS, "proxy", OPERATOR,
           "Longest wait for the beginning of a streamed answer while another upstream can be asked."),
    Option("upstream_connect_timeout", 10.0, readers.SECONDS, "proxy", OPERATOR, "Longest wait for a connection."),
    Option("upstream_total_timeout", None, readers.OPTIONAL_SECONDS,
           "proxy", OPERATOR, "Longest a whole answer may take."),
    Option("upstream_connections", None, integer(1, optional=True), "proxy", OPERATOR,
           "Connections open to an upstream at a time; more requests wait for one."),
    Option("upstream_retries", 2, integer(0, optional=False), "proxy", OPERATOR,
           "New tries where no connection was had, or after a 429 or 503 that says to come back soon."),
    Option("api_keys", (), readers.KEYS, "proxy", OPERATOR,
           "Keys, one of which clients of the proxy must show; a name tells whose it is.", secret=True),
    Option("forward_paths", FORWARDED, readers.FORWARD_PATHS, "proxy", OPERATOR,
           "Paths that are forwarded, with or without `/v1` before them; what `paths` intercepts always is, and "
           "`/models` is only looked at (GET). `*`: all, with any method."),
    Option("allowed_hosts", (), readers.HOSTS, "proxy", OPERATOR,
           "Names under which the proxy may be asked. None: those of this machine, where it listens on loopback, "
           "holds a key and wants none."),
    Option("cors_origins", (), readers.ORIGINS, "guard", OPERATOR,
           "Origins of web pages that may ask; they get CORS headers, and the proxy answers their preflights."),
    Option("shutdown_grace", 30, integer(0, optional=False), "proxy", OPERATOR,
           "Seconds that running answers may go on after a signal to stop."),
    Option("access_log", "text", choice("text", "json", "off"), "proxy", OPERATOR,
           "One line a request on standard output. `json`: the lines of the log on standard error are JSON too."),
    Option("log_upstream_errors", True, flag(), "proxy", OPERATOR,
           "The log's line of an upstream's error has its words, at most 200 characters. They may quote a request."),
    Option("metrics", "off", readers.METRICS, "see", OPERATOR,
           "Metrics of Prometheus (extra `metrics`); the proxy has them at `/metrics`, or at the path that is given."),
    Option("metrics_open", False, flag(), "see", OPERATOR, "The proxy's metrics want none of `api_keys`."),
    Option("trace_dir", None, readers.PATH, "see", OPERATOR,
           "A file for each request, with all that was said: for `replay` and `inspect`. No keys are in it."),
    Option("trace_sample", 1.0, readers.SHARE, "see", OPERATOR, "The share of requests that get one."),
    Option("trace_max_bytes", 16 * _MIB, integer(1024, optional=False), "see", OPERATOR, "Bytes of one such file."),
    Option("trace_dir_max_bytes", 1024 * _MIB, integer(1024, optional=True), "see", OPERATOR,
           "Bytes of all such files in the folder. The oldest are removed."),
    Option("otel", False, flag(), "see", OPERATOR,
           "Spans of OpenTelemetry (extra `otel`) by its conventions for generative AI."),
    Option("inspector", None, readers.TOKEN, "see", OPERATOR,
           "A token: the proxy has a page of its exchanges at `/inspect/TOKEN/`, for this machine alone.", secret=True),
)  # fmt: skip

OPTIONS: Mapping[str, Option] = {option.name: option for option in _ROWS}

PROFILES: Mapping[str, Mapping[str, Any]] = {
    profile: {option.name: option.profiles[profile] for option in _ROWS if profile in option.profiles}
    for profile in OPTIONS["profile"].allowed.split(", ")
}
MAXIMA: Mapping[str, Mapping[str, int]] = {
    profile: most
    for profile in PROFILES
    if (most := {option.name: option.most[profile] for option in _ROWS if profile in option.most})
}
"""The most that a tenant may be given under a profile, whatever its table says."""
