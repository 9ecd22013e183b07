"""Which family a model belongs to, by its name: the format in which `auto` writes the prompt.

Reading needs no such table: `auto` reads every family. A model that is not here gets the prompt of `json`; the setting
`format` says otherwise for all models.
"""

from __future__ import annotations

import fnmatch
import functools
import re

_MAX_NAME = 512
_HYPHEN = re.compile(r"(?<=[a-z])-(?=[0-9])")

# Globs over the parts of a model's name, lower-cased, `_` as `-`, and no `-` between a letter and a digit (`llama-3.1`
# and `llama3.1` are one). A glob may begin at the part's start or behind `-`, `.`, `:` or `=`, and what follows it
# (size, date, quantisation, `:latest`, `.gguf`) is free. The first that fits decides, so fine-tunes and successors
# stand before what they are named for.
#
# Sources, unless a line names another:
# [vllm] docs/features/tool_calling.md, what each --tool-call-parser is for; [recipes] docs.vllm.ai/projects/recipes
# [sglang] docs/advanced_features/tool_parser, the table of parsers
# [llama.cpp] docs/function-calling.md and models/templates
# [card] the model's card or chat template on huggingface.co
# [mistral] docs.mistral.ai and mistral-common: the version of the model's tokenizer
TABLE: tuple[tuple[str, str], ...] = (
    # Fine-tunes and distillates that carry another family's name.
    ("functionary*v3.1", "functionary_v31"),  # [llama.cpp] Functionary v3.1
    ("functionary*v3.2", "functionary_v32"),  # [llama.cpp] Functionary v3.2
    ("hermes2-pro", "hermes"),  # [vllm] hermes: all since Hermes 2 Pro
    ("hermes2-theta", "hermes"),  # [vllm] hermes
    ("hermes[34]", "hermes"),  # [vllm] hermes
    ("xlam", "xlam"),  # [vllm] xlam
    ("llama-xlam", "xlam"),  # [vllm] xlam
    ("toolace", "pythonic"),  # [vllm] pythonic
    ("deepseek-r1:[1378]", "json"),  # Ollama's tags: all but 671b are distillates
    ("deepseek-r1-0528-qwen", "json"),  # one, too
    ("deepseek-r1-distill", "json"),  # [card] templates without tools; [llama.cpp] "reluctant to call any tools"
    ("nemotron3", "qwen3_coder"),  # [recipes] Nemotron 3 Nano and Super: qwen3_coder
    ("llama3.1-nemotron70b", "llama3_json"),  # [card] Llama 3.1's template
    ("nemotron", "nemotron"),  # [llama.cpp] NVIDIA-Nemotron-Nano-v2, Llama-3_3-Nemotron-Super-49B-v1_5
    ("functiongemma", "functiongemma"),  # [vllm] functiongemma
    # DeepSeek
    ("deepseek-v4", "deepseek_v32"),  # [sglang] deepseekv4: DSML too
    ("deepseek-v3.2-exp", "deepseek_v31"),  # [sglang] deepseekv31
    ("deepseek-v3.2", "deepseek_v32"),  # [sglang] deepseekv32
    ("deepseek-v3.1", "deepseek_v31"),  # [vllm] deepseek_v31
    ("deepseek-v3", "deepseek_v3"),  # [vllm] deepseek_v3
    ("deepseek-r1", "deepseek_v3"),  # [vllm] deepseek_v3: R1-0528
    # Qwen
    ("qwen3-coder", "qwen3_coder"),  # [vllm] qwen3_xml; [sglang] qwen3_coder
    ("qwen3.[5-9]", "qwen3_coder"),  # [recipes] Qwen 3.5: qwen3_coder
    ("qwen3", "hermes"),  # [sglang] qwen: all but Qwen3-Coder, Next and VL included
    ("qwen2[.-]5", "hermes"),  # [vllm] hermes
    ("qwq", "hermes"),  # [vllm] hermes
    # Llama
    ("llama4", "llama4_pythonic"),  # [vllm] llama4_pythonic
    ("llama3[.-][123]", "llama3_json"),  # [vllm] llama3_json; [sglang] llama3
    ("llama-v3p[123]", "llama3_json"),  # the same by Fireworks' names
    # Mistral: v11 and later write the name before the arguments
    ("mistral-small3.2", "mistral_v11"),  # [mistral] v11
    ("mistral-small2506", "mistral_v11"),  # the same by its date
    ("mistral-small4", "mistral_v11"),  # [mistral] v15
    ("mistral-medium3", "mistral_v11"),  # [mistral] v13
    ("mistral-medium25", "mistral_v11"),  # the same by its date
    ("mistral-large3", "mistral_v11"),  # [mistral] v13
    ("mistral-large2512", "mistral_v11"),  # the same by its date
    ("ministral3b", "mistral_old"),  # [mistral] v3: the 3B of 2024
    ("ministral3", "mistral_v11"),  # [mistral] v13
    ("devstral", "mistral_v11"),  # [mistral] v11 and v13
    ("magistral", "mistral_v11"),  # [mistral] v11 and v13
    ("mistral7b-instruct-v0.3", "mistral_old"),  # [vllm] mistral; [mistral] v3
    ("mistral-nemo", "mistral_old"),  # [llama.cpp] Mistral Nemo; [mistral] v3
    ("mistral-small", "mistral_old"),  # [mistral] v3 and, up to 3.1, v7
    ("mistral-large", "mistral_old"),  # [mistral] v3 and v7
    ("mixtral8x22b-instruct", "mistral_old"),  # [mistral] v3
    ("ministral", "mistral_old"),  # [mistral] v3: the 8B of 2024
    ("pixtral", "mistral_old"),  # [mistral] v3 and v7
    # Others
    ("gpt-oss", "harmony"),  # [vllm] openai; [sglang] gpt-oss
    ("kimi-k2", "kimi_k2"),  # [vllm] kimi_k2
    ("kimi-k3", "kimi_k3"),  # [vllm] kimi_k3
    ("glm4.[56]", "glm45"),  # [vllm] glm45
    ("glm4.7", "glm47"),  # [vllm] glm47
    ("glm5", "glm47"),  # [sglang] glm47
    ("granite4", "granite4"),  # [vllm] granite4
    ("granite3", "granite"),  # [vllm] granite
    ("granite20b-functioncalling", "granite_20b_fc"),  # [vllm] granite-20b-fc
    ("phi4-mini", "phi4_mini"),  # vLLM: phi4_mini_json, examples/tool_chat_template_phi4_mini.jinja
    ("internlm2", "internlm"),  # [vllm] internlm: 2 and 2.5
    ("internlm3", "internlm"),  # [card] InternLM 3
    ("jamba", "jamba"),  # [vllm] jamba
    ("hy3", "hy_v3"),  # [vllm] hy_v3
    ("hunyuan", "hunyuan"),  # [vllm] hunyuan_a13b
    ("minimax-m2", "minimax_m2"),  # [card] MiniMax-M2.5, docs/tool_calling_guide.md: the same syntax as M2
    ("minimax-m3", "minimax_m3"),  # [vllm] minimax_m3
    ("step3.[5-9]", "step3p5"),  # [llama.cpp] StepFun3.7-Flash
    ("step3", "step3"),  # [sglang] step3
    ("gemma4", "gemma4"),  # [llama.cpp] gemma4
    ("gemma3", "pythonic"),  # ai.google.dev/gemma/docs/capabilities/function-calling
    ("command-r7b", "cohere_command3"),  # [llama.cpp] Command R7B
    ("command-r", "command_r"),  # [card] Command R and R+
    ("north-mini-code", "cohere_command4"),  # [llama.cpp] Cohere2MoE
    ("command-a", "cohere_command3"),  # [vllm] cohere_command3
    ("gigachat3.5", "gigachat35"),  # [sglang] gigachat35
    ("gigachat3", "gigachat3"),  # [vllm] gigachat3
    ("solar-open2", "solar_open2"),  # [vllm] solar_open2
    ("solar-open", "solar_open"),  # [llama.cpp] upstage-Solar-Open-100B
    ("exaone4", "hermes"),  # [card] EXAONE 4.0: hermes
    ("reka-edge", "reka"),  # [llama.cpp] Reka-Edge
    ("laguna", "glm45"),  # [vllm] poolside_v1: GLM's tags
    ("ling3", "glm45"),  # [vllm] ling3: GLM's tags
    ("ling-flash3", "glm45"),  # the same
    ("spark2.5", "glm47"),  # [llama.cpp] Spark2.5
    ("mimo", "qwen3_coder"),  # [sglang] mimo
    ("trinity", "hermes"),  # [sglang] trinity
    ("bielik", "hermes"),  # [llama.cpp] Bielik-11B-v3.0-Instruct
    ("apriel", "jamba"),  # [llama.cpp] Apriel 1.5: a JSON list within <tool_calls>
    ("firefunction-v2", "phi4_mini"),  # [llama.cpp] llama-3-firefunction-v2
    ("muse-glimmer", "muse_glimmer"),  # [sglang] muse
    ("inkling", "inkling"),  # [vllm] inkling
    ("k2-horizon", "k2_horizon"),  # [sglang] k2_horizon
    ("mirothinker", "mirothinker"),  # [llama.cpp] MiroThinker-v1
    ("dots.llm", "dots"),  # [sglang] dots
    ("apertus", "apertus"),  # [vllm] apertus
    ("lfm2", "lfm2"),  # [card] LFM2, "Tool use"
    ("olmo3", "olmo3"),  # [vllm] olmo3
    ("seed-oss", "seed_oss"),  # [llama.cpp] ByteDance-Seed-OSS
    ("ernie4.5", "ernie45"),  # [card] ERNIE-4.5-21B-A3B-Thinking: its parsers
    ("longcat", "longcat"),  # [vllm] longcat
    ("minicpm5", "minicpm5"),  # [sglang] minicpm5
    ("smollm3", "hermes"),  # [card] SmolLM3: hermes
)


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple(
        (re.compile(r"(?:^|[-.:=])" + fnmatch.translate(glob + "*").removesuffix(r"\Z")), name) for glob, name in TABLE
    )


@functools.lru_cache(maxsize=512)
def _family(model: str) -> str | None:
    # Organisations, folders and a cache's `models--org--name` are parts; the last that is known decides.
    for part in reversed(re.split(r"[/\\]|--", model.lower().replace("_", "-"))):
        short = _HYPHEN.sub("", part)
        for pattern, name in _patterns():
            if pattern.search(short):
                return name
    return None


def family(model: str) -> str | None:
    """The format of the family that `model` (`Qwen/Qwen3-8B-AWQ`, `qwen3:8b`, a path) belongs to, None if unknown."""
    return _family(model) if len(model) <= _MAX_NAME else None
