"""Settings as keywords, for editors and type checkers. Written by `python -m tests.typed_settings`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict


class Keywords(TypedDict, total=False):
    """What may be given."""

    mode: Literal["prompt", "native", "auto", "off"] | str
    format: str
    template: str | None
    send: Literal["chat", "completions"] | str
    profile: Literal["compat", "gateway", "strict"] | str
    paths: str | Iterable[str] | None
    faces: str | Iterable[str] | None
    constrain: Literal["auto", "off", "response_format", "structured_outputs", "structural_tag", "llama_cpp"] | str
    retries: int | str
    structured: Literal["auto", "off", "prompt"] | str
    tools_budget: int | str | None
    choose: bool | str
    parallel: Literal["client", "never"] | str
    unknown_tool: Literal["text", "drop", "forward", "error"] | str
    malformed_arguments: Literal["repair", "forward", "text", "error"] | str
    coerce_arguments: bool | str
    repair_names: bool | str
    stream_arguments: bool | str
    reasoning: Literal["ignore", "parse"] | str
    reasoning_field: str | None
    reasoning_start: Literal["auto", "open", "closed"] | str
    prose: Literal["keep", "drop"] | str
    messages: Literal["plain", "keep"] | str
    system_role: Literal["system", "user"] | str
    special_tokens: Literal["auto", "on", "off"] | str
    validate_arguments: Literal["off", "warn", "error", "retry"] | str
    usage: Literal["auto", "backend", "count", "off"] | str
    tokenizer: str
    drop_params: str | Iterable[str] | None
    max_tools: int | str | None
    max_tool_name_length: int | str | None
    tool_name_pattern: str | None
    max_description_length: int | str | None
    max_schema_depth: int | str | None
    max_arguments_bytes: int | str | None
    max_tool_calls: int | str | None
    max_tool_rounds: int | str | None
    max_repeated_calls: int | str | None
    max_messages: int | str | None
    max_result_bytes: int | str | None
    max_request_bytes: int | str | None
    upload_timeout: float | str | None
    max_response_bytes: int | str | None
    allowlist: str | Iterable[str] | None
    allowlist_mode: Literal["enforce", "warn", "off"] | str
    rate_limit: str | None
    request_limit: str | None
    token_limit: str | None
    rate_limit_storage: str
    rate_limit_failure: Literal["open", "closed"] | str
    tenant_header: str
    tenants_file: str | None
    arguments_as_object: bool | str
    rewrite_ids: bool | str
    require_descriptions: bool | str
    refuse_deprecated: bool | str
    strict_names: bool | str
    strict_tools: bool | str
    strict_schemas: bool | str
    strict_ids: bool | str
    strict_results: bool | str
    call_index: bool | str
    extension_field: str | None
    upstream_url: str | None
    upstream_api: Literal["openai", "anthropic", "google"] | str
    upstream_ids: str | None
    upstream_key: str | None
    upstreams_file: str | None
    upstream_timeout: float | str
    model_aliases: str | Iterable[str] | None
    default_max_tokens: int | str
    upstream_first_byte_timeout: float | str | None
    upstream_connect_timeout: float | str
    upstream_total_timeout: float | str | None
    upstream_connections: int | str | None
    upstream_retries: int | str
    api_keys: str | Iterable[str] | None
    forward_paths: str | Iterable[str] | None
    allowed_hosts: str | Iterable[str] | None
    cors_origins: str | Iterable[str] | None
    shutdown_grace: int | str
    access_log: Literal["text", "json", "off"] | str
    log_upstream_errors: bool | str
    metrics: str
    metrics_open: bool | str
    trace_dir: str | None
    trace_sample: float | str
    trace_max_bytes: int | str
    trace_dir_max_bytes: int | str | None
    otel: bool | str
    inspector: str | None
