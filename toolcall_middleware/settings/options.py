"""The table of settings: one row defines all of a setting.

Everything else is derived from it: how a value is read, the profiles, what a tenant may be given at most, what a
request may change, `keywords.py` (`python -m tests.typed_settings` writes it), and the table in README.
"""

# ruff: noqa: FBT003 - a row of the table is read by its columns
# No `from __future__ import annotations`: the types of the rows are read below.
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args, get_origin

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
    """Patterns of names: a stricter value admits fewer names."""


Levels = tuple[tuple[Any, ...], ...]
"""From the loosest to the strictest; values of one level are as strict as each other."""


@dataclass(slots=True)
class Option:
    """One setting. Its name and the type of its values are those of its row in `Values`."""

    default: Any
    room: str
    """The section of the documentation that lists it."""
    strictness: Strictness | Levels
    """Which of two values is stricter: a request may tighten, never loosen."""
    help: str
    own: Reader | None = None
    """Its reader, where its type does not determine it."""
    least: int = 0
    """The least value of an integer."""
    profiles: Mapping[str, Any] = field(default_factory=dict)
    """Its value by profile, where that is not the default."""
    most: Mapping[str, int] = field(default_factory=dict)
    """The most that a tenant may be given under a profile, whatever its table says."""
    secret: bool = False
    name: str = field(init=False)
    reader: Reader = field(init=False)

    def __set_name__(self, rows: type, name: str) -> None:
        self.name = name
        kind: Any = rows.__annotations__[name]
        if get_origin(kind) is Literal:
            self.reader = choice(*get_args(kind))
        else:
            self.reader = self.own or (flag() if kind is bool else integer(self.least, optional=kind is not int))

    @property
    def allowed(self) -> str:
        """The values that it takes, in words."""
        return self.reader.allowed

    def read(self, value: Any) -> Any:
        """The setting's value for a string or a Python value. Raises ValueError, TypeError or KeyError."""
        return self.reader.read(value)


option: Any = Option  # a row is declared with the type of its values


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


# fmt: off
class Values:
    """What a `Settings` has, a row each: the type of its values, the default, the room, how strict, the help."""

    # A request that turns everything off would slip past the checks of the answer.
    mode: Literal["prompt", "native", "auto", "off"] = option(
        "prompt", "prompt", (("off",), ("prompt", "native", "auto")),
        "`prompt`: tools go into the prompt, calls are read from text. `off`: everything passes.")
    format: str = option("auto", "prompt", FREE, "How calls are written and read.", own=readers.FORMAT)
    template: str | None = option(None, "prompt", OPERATOR,
        "A checkpoint's chat template, from which `format=template` derives how calls are written; `auto` uses it "
        "where a model's name tells no family. Without it `auto` uses the template beside the tokenizer that is set "
        "(`hf:`), and the one that a llama.cpp upstream has at `/props`; `none` keeps it from both.",
        own=readers.TEMPLATE)
    send: Literal["chat", "completions"] = option("chat", "prompt", OPERATOR,
        "`completions`: the model's own chat template (`template`) writes the prompt, tools and history included, "
        "and the backend is asked for a text completion.")
    profile: Literal["compat", "gateway", "strict"] = option("compat", "prompt", OPERATOR,
        "A preset of other settings.")
    paths: tuple[str, ...] = option(("/chat/completions",), "prompt", OPERATOR,
        "Which paths are intercepted (POST only).", own=readers.PATHS)
    faces: tuple[str, ...] = option(("auto",), "prompt", OPERATOR,
        "APIs that clients may speak. `auto`: all in the proxy; in an app `chat`, and the others where a request "
        "shows that it means them.", own=readers.FACES)
    constrain: Literal["auto", "off", "response_format", "structured_outputs", "structural_tag", "llama_cpp"] = option(
        "auto", "prompt", FREE,
        "What to ask of the backend's constrained decoding for `required`, a named tool or `strict: true`. "
        "Calls after the first of a constrained list are held back until complete; one that is cut is dropped.")
    retries: int = option(1, "prompt", FEWER,
        "New tries when `required` or a named tool got no call, a call does not fit its tool's schema (`strict: "
        "true`, `validate_arguments=retry`), or a text is not the JSON that `response_format` asks for.", least=0)
    structured: Literal["auto", "off", "prompt"] = option("auto", "prompt", FREE,
        "With tools in the prompt and a `response_format`: the final text is held to its end, taken out of a code "
        "fence, checked against the schema, and asked for again (`retries`) where it does not fit. Without tools "
        "the field passes, and it is done so where the backend refuses the field by name; `prompt`: always. "
        "`off`: it is asked for in words alone.")
    tools_budget: int | str | None = option(None, "prompt", FREE,
        "Tokens that tools may take in a prompt. Above it their schemas are compacted, then descriptions are "
        "shortened, then the last tools are shown by one line each, and the model gets a definition with "
        "`find_tools`. `auto`: a third of the backend's window.", own=readers.TOKENS)
    choose: bool = option(False, "prompt", FREE,
        "With tools in the prompt and `tool_choice: auto`, the answer is constrained to a call of a tool or of "
        "`respond(text)`, whose text is the answer's: for models that never call by themselves.")
    parallel: Literal["client", "never"] = option("client", "prompt", (("client",), ("never",)),
        "Whether several calls may come in one answer.")
    unknown_tool: Literal["text", "drop", "forward", "error"] = option(
        "text", "parsing", (("forward",), ("text", "drop"), ("error",)),
        "A call of a name that is not offered.")
    malformed_arguments: Literal["repair", "forward", "text", "error"] = option(
        "repair", "parsing", (("repair",), ("forward",), ("text",), ("error",)),
        "Arguments that are not JSON. `repair`: text where they are no object. `forward`: as the model wrote them, "
        "for clients that repair them.", profiles={"strict": "error"})
    coerce_arguments: bool = option(True, "parsing", FREE,
        "A string is converted where a tool's schema admits no string, but the value in it: `\"2\"` becomes `2`.")
    repair_names: bool = option(True, "parsing", FREE,
        "A name that means exactly one offered tool, but for case, separators and prefixes such as `functions.`,"
        " calls that.")
    stream_arguments: bool = option(True, "parsing", ((True,), (False,)),
        "`true`: fragments as the model writes them. `false`: a call goes out when it is complete and valid.")
    reasoning: Literal["ignore", "parse"] = option("ignore", "parsing", FREE, "Markup inside reasoning.")
    reasoning_field: str | None = option(None, "parsing", FREE,
        "The field for reasoning found in the text; none keeps it in content as written.", own=readers.REASONING_FIELD)
    reasoning_start: Literal["auto", "open", "closed"] = option("auto", "parsing", FREE,
        "Whether answers begin in a thought that the chat template has opened. `auto`: by the model's name, and by "
        "its first `</think>` without a beginning.")
    prose: Literal["keep", "drop"] = option("keep", "parsing", FREE, "Text beside calls.")
    messages: Literal["plain", "keep"] = option("plain", "prompt", FREE,
        "How history reaches a text backend; `keep` rewrites only messages with calls or results.")
    system_role: Literal["system", "user"] = option("system", "prompt", FREE, "For templates that have no system role.")
    special_tokens: Literal["auto", "on", "off"] = option("auto", "prompt", OPERATOR,
        "Whether `skip_special_tokens: false` is sent for formats whose markers are special tokens.")
    validate_arguments: Literal["off", "warn", "error", "retry"] = option(
        "off", "parsing", (("off",), ("warn",), ("retry",), ("error",)),
        "The finished call against the tool's schema, before the client sees it. Calls of tools with `strict: true` "
        "are checked under `off` and `warn` too, and asked for again (`retries`).")
    usage: Literal["auto", "backend", "count", "off"] = option("auto", "usage", OPERATOR,
        "`auto`: the backend's own numbers, counted where it gives none.")
    tokenizer: str = option("approximate", "usage", OPERATOR,
        "What counts tokens where the backend does not.", own=readers.TOKENIZER)
    drop_params: tuple[str, ...] = option((), "prompt", OPERATOR,
        "Request fields that are not sent on.", own=readers.NAMES)
    max_tools: int | None = option(128, "guard", FEWER, "Tools in a request.", least=0)
    max_tool_name_length: int | None = option(64, "guard", FEWER, "Characters in a tool's name.", least=1)
    tool_name_pattern: str | None = option(None, "guard", OPERATOR,
        "What the names of tools must match, as a regular expression.",
        own=readers.REGEX, profiles={"gateway": "^[a-zA-Z0-9_-]+$"})
    max_description_length: int | None = option(None, "guard", FEWER,
        "Characters in a description.", least=0, profiles={"gateway": 1024}, most={"gateway": 4096})
    max_schema_depth: int | None = option(None, "guard", FEWER,
        "Levels of a tool's schema.", least=1, profiles={"gateway": 5}, most={"gateway": 10})
    max_arguments_bytes: int | None = option(4 * _MIB, "guard", FEWER,
        "Bytes of one call's arguments.", least=2, profiles={"gateway": 64 * _KIB}, most={"gateway": 256 * _KIB})
    max_tool_calls: int | None = option(128, "guard", FEWER,
        "Calls in an answer; generation stops there.", least=1, profiles={"gateway": 20}, most={"gateway": 50})
    max_tool_rounds: int | None = option(None, "guard", FEWER, "Assistant turns with calls in the history.", least=1)
    max_repeated_calls: int | None = option(None, "guard", FEWER,
        "Repeats in a row of a call with the same arguments and result: the model gets a note; one more is a 422.",
        least=1, profiles={"gateway": 3})
    max_messages: int | None = option(None, "guard", FEWER, "Messages in a request.", least=1)
    max_result_bytes: int | None = option(None, "guard", FEWER, "Longer tool results are truncated.", least=1)
    # It was obeyed before the request could be read; so was `upload_timeout`.
    max_request_bytes: int | None = option(32 * _MIB, "guard", OPERATOR, "Bytes of a request.", least=1)
    upload_timeout: float | None = option(60.0, "guard", OPERATOR,
        "Longest wait for the next piece of a request's body, and longest delay against 1 KiB a second.",
        own=readers.OPTIONAL_SECONDS)
    max_response_bytes: int | None = option(64 * _MIB, "guard", FEWER,
        "Bytes of a whole answer, and of a streamed one of Responses, which is kept for its last event.", least=1)
    allowlist: tuple[str, ...] = option((), "guard", SUBSET, "Tools that may be used.", own=readers.PATTERNS)
    allowlist_mode: Literal["enforce", "warn", "off"] = option("off", "guard", (("off",), ("warn",), ("enforce",)),
        "What the list does; `off`: nothing.")
    rate_limit: str | None = option(None, "guard", OPERATOR,
        "Tool calls of a tenant in a time; "
        "an answer with five calls counts five. Nothing is reserved while it runs.", own=readers.RATE)
    request_limit: str | None = option(None, "guard", OPERATOR,
        "Requests of a tenant in a time, with or without tools, on every path but those that are only read (GET).",
        own=readers.RATE)
    token_limit: str | None = option(None, "guard", OPERATOR,
        "Tokens of prompts and answers of a tenant in a time, known at an answer's end.", own=readers.RATE)
    rate_limit_storage: str = option("memory://", "guard", OPERATOR,
        "Where they are counted; several machines share a Redis.", own=readers.STORAGE, secret=True)
    rate_limit_failure: Literal["open", "closed"] = option("open", "guard", OPERATOR,
        "When the storage is down: requests pass uncounted, or are refused.")
    tenant_header: str = option("authorization", "guard", OPERATOR, "What tells tenants apart.", own=readers.HEADER)
    tenants_file: str | None = option(None, "guard", OPERATOR, "TOML with settings by tenant.", own=readers.PATH)
    arguments_as_object: bool = option(False, "strict", ON,
        "Arguments as a JSON object, not a string.", profiles={"strict": True})
    rewrite_ids: bool = option(False, "strict", ON, "Own call ids in native mode too.", profiles={"strict": True})
    require_descriptions: bool = option(False, "strict", ON,
        "Tools and parameters must be described.", profiles={"strict": True})
    refuse_deprecated: bool = option(False, "strict", ON,
        "`functions` and `function_call` are refused.", profiles={"strict": True})
    strict_names: bool = option(False, "strict", ON,
        "Names of tools must match `^[a-zA-Z0-9_]+$`.", profiles={"strict": True})
    strict_tools: bool = option(False, "strict", ON,
        "A tool has its `type`, and `parameters` whose root is of type object.", profiles={"strict": True})
    strict_schemas: bool = option(False, "strict", ON,
        "A tool with `strict: true` is held to OpenAI's rules for it.", profiles={"strict": True})
    strict_ids: bool = option(False, "strict", ON,
        "Call ids in the history must match `^call_[a-zA-Z0-9]+$`.", profiles={"strict": True})
    strict_results: bool = option(False, "strict", ON,
        "Every call in the history has one result with content directly after it; ids are used once.",
        profiles={"strict": True})
    call_index: bool = option(False, "guard", ON,
        "Calls of whole answers have an `index`, as those of streams.", profiles={"gateway": True})
    extension_field: str | None = option(None, "guard", OPERATOR,
        "Warnings, and why no call came, are added to answers under this key.",
        own=readers.EXTENSION, profiles={"gateway": "_toolcall"})
    upstream_url: str | None = option(None, "proxy", OPERATOR,
        "The upstream's base address, `/v1` included; a client's leading `/v1` is not added to it.", own=readers.URL)
    upstream_api: Literal["openai", "anthropic", "google"] = option("openai", "proxy", OPERATOR,
        "What the upstream speaks.")
    upstream_ids: str | None = option(None, "proxy", OPERATOR,
        "The form of call ids that the upstream demands; `mistral`: nine letters and digits.", own=readers.ID_FORM)
    upstream_key: str | None = option(None, "proxy", OPERATOR,
        "Sent to the upstream instead of the client's.", own=readers.KEY, secret=True)
    upstreams_file: str | None = option(None, "proxy", OPERATOR, "TOML with several upstreams.", own=readers.PATH)
    upstream_timeout: float = option(300.0, "proxy", OPERATOR, "Longest wait for a next byte.", own=readers.SECONDS)
    model_aliases: tuple[str, ...] = option((), "proxy", OPERATOR,
        "`PATTERN=NAME`: models under other names, first match wins; clients see their own name again.",
        own=readers.ALIASES)
    default_max_tokens: int = option(8192, "proxy", OPERATOR,
        "Length of an answer where the client gives none and the upstream's API wants one (Anthropic's).", least=1)
    upstream_first_byte_timeout: float | None = option(60.0, "proxy", OPERATOR,
        "Longest wait for the beginning of a streamed answer while another upstream can be asked.",
        own=readers.OPTIONAL_SECONDS)
    upstream_connect_timeout: float = option(10.0, "proxy", OPERATOR,
        "Longest wait for a connection.", own=readers.SECONDS)
    upstream_total_timeout: float | None = option(None, "proxy", OPERATOR,
        "Longest a whole answer may take.", own=readers.OPTIONAL_SECONDS)
    upstream_connections: int | None = option(None, "proxy", OPERATOR,
        "Connections open to an upstream at a time; more requests wait for one.", least=1)
    upstream_retries: int = option(2, "proxy", OPERATOR,
        "New tries where no connection was had, or after a 429 or 503 that says to come back soon.", least=0)
    api_keys: tuple[str, ...] = option((), "proxy", OPERATOR,
        "Keys, one of which clients of the proxy must show; a name tells whose it is.",
        own=readers.KEYS, secret=True)
    forward_paths: tuple[str, ...] = option(FORWARDED, "proxy", OPERATOR,
        "Paths that are forwarded, with or without `/v1` before them; what `paths` intercepts always is, and "
        "`/models` is only looked at (GET). `*`: all, with any method.", own=readers.FORWARD_PATHS)
    allowed_hosts: tuple[str, ...] = option((), "proxy", OPERATOR,
        "Names under which the proxy may be asked. None: those of this machine, where it listens on loopback, "
        "holds a key and wants none.", own=readers.HOSTS)
    cors_origins: tuple[str, ...] = option((), "guard", OPERATOR,
        "Origins of web pages that may ask; they get CORS headers, and the proxy answers their preflights.",
        own=readers.ORIGINS)
    shutdown_grace: int = option(30, "proxy", OPERATOR,
        "Seconds that running answers may go on after a signal to stop.", least=0)
    access_log: Literal["text", "json", "off"] = option("text", "proxy", OPERATOR,
        "One line a request on standard output. `json`: the lines of the log on standard error are JSON too.")
    log_upstream_errors: bool = option(True, "proxy", OPERATOR,
        "The log's line of an upstream's error has its words, at most 200 characters. They may quote a request.")
    metrics: str = option("off", "see", OPERATOR,
        "Metrics of Prometheus (extra `metrics`); the proxy has them at `/metrics`, or at the path that is given.",
        own=readers.METRICS)
    metrics_open: bool = option(False, "see", OPERATOR, "The proxy's metrics want none of `api_keys`.")
    trace_dir: str | None = option(None, "see", OPERATOR,
        "A file for each request, with all that was said: for `replay` and `inspect`. No keys are in it.",
        own=readers.PATH)
    trace_sample: float = option(1.0, "see", OPERATOR, "The share of requests that get one.", own=readers.SHARE)
    trace_max_bytes: int = option(16 * _MIB, "see", OPERATOR, "Bytes of one such file.", least=1024)
    trace_dir_max_bytes: int | None = option(1024 * _MIB, "see", OPERATOR,
        "Bytes of all such files in the folder. The oldest are removed.", least=1024)
    otel: bool = option(False, "see", OPERATOR,
        "Spans of OpenTelemetry (extra `otel`) by its conventions for generative AI.")
    inspector: str | None = option(None, "see", OPERATOR,
        "A token: the proxy has a page of its exchanges at `/inspect/TOKEN/`, for this machine alone.",
        own=readers.TOKEN, secret=True)
# fmt: on


OPTIONS: Mapping[str, Option] = {name: row for name, row in vars(Values).items() if isinstance(row, Option)}

PROFILES: Mapping[str, Mapping[str, Any]] = {
    profile: {name: row.profiles[profile] for name, row in OPTIONS.items() if profile in row.profiles}
    for profile in OPTIONS["profile"].allowed.split(", ")
}
MAXIMA: Mapping[str, Mapping[str, int]] = {
    profile: most
    for profile in PROFILES
    if (most := {name: row.most[profile] for name, row in OPTIONS.items() if profile in row.most})
}
"""The most that a tenant may be given under a profile, whatever its table says."""
