"""The table of models: which prompt `auto` writes for which name."""

from __future__ import annotations

import re
import time

import pytest

from toolcall_middleware.formats import markup, registry

KNOWN = """
Qwen/Qwen2.5-7B-Instruct hermes
Qwen/Qwen2.5-Coder-32B-Instruct-AWQ hermes
Qwen/Qwen3-8B hermes
Qwen/Qwen3-Next-80B-A3B-Instruct hermes
Qwen/Qwen3-VL-30B-A3B-Thinking hermes
Qwen/QwQ-32B hermes
qwen2.5:7b-instruct-q4_K_M hermes
qwen3:8b hermes
NousResearch/Hermes-2-Pro-Mistral-7B hermes
NousResearch/Hermes-3-Llama-3.1-8B hermes
NousResearch/Hermes-4-70B-FP8 hermes
hermes3:latest hermes
HuggingFaceTB/SmolLM3-3B hermes
Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8 qwen3_coder
Qwen/Qwen3.5-27B qwen3_coder
qwen3-coder:30b qwen3_coder
nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 qwen3_coder
meta-llama/Llama-3.1-8B-Instruct llama3_json
meta-llama/Meta-Llama-3.1-70B-Instruct llama3_json
unsloth/Llama-3.2-3B-Instruct-GGUF llama3_json
llama3.3:70b llama3_json
llama-3.3-70b-versatile llama3_json
us.meta.llama3-1-8b-instruct-v1:0 llama3_json
accounts/fireworks/models/llama-v3p1-8b-instruct llama3_json
nvidia/Llama-3.1-Nemotron-70B-Instruct-HF llama3_json
meta-llama/Llama-4-Scout-17B-16E-Instruct llama4_pythonic
llama4:scout llama4_pythonic
Team-ACE/ToolACE-2-Llama-3.1-8B pythonic
google/gemma-3-27b-it pythonic
gemma3:4b pythonic
mistralai/Mistral-7B-Instruct-v0.3 mistral_old
mistralai/Mistral-Nemo-Instruct-2407 mistral_old
mistral-nemo:latest mistral_old
mistralai/Mistral-Small-3.1-24B-Instruct-2503 mistral_old
mistralai/Ministral-8B-Instruct-2410 mistral_old
ministral-3b-2410 mistral_old
mistralai/Mixtral-8x22B-Instruct-v0.1 mistral_old
mistral.mistral-large-2407-v1:0 mistral_old
mistralai/Mistral-Small-3.2-24B-Instruct-2506 mistral_v11
mistral-small3.2:24b mistral_v11
mistralai/Devstral-Small-2507 mistral_v11
mistralai/Magistral-Small-2509 mistral_v11
mistralai/Ministral-3-14B-Instruct-2512 mistral_v11
mistralai/Ministral-3-3B-Instruct-2512 mistral_v11
mistralai/Mistral-Large-3-675B-Instruct-2512 mistral_v11
mistral-medium-2508 mistral_v11
deepseek-ai/DeepSeek-V3-0324 deepseek_v3
deepseek-ai/DeepSeek-R1-0528 deepseek_v3
deepseek-ai/DeepSeek-V3.1-Terminus deepseek_v31
deepseek-ai/DeepSeek-V3.2-Exp deepseek_v31
deepseek-ai/DeepSeek-V3.2 deepseek_v32
deepseek-ai/DeepSeek-V4-Flash deepseek_v4
deepseek-ai/DeepSeek-V4.1-Flash deepseek_v41
deepseek-flash deepseek_v41
deepseek-ai/DeepSeek-R1-Distill-Qwen-32B json
deepseek-r1:8b json
deepseek-r1:671b deepseek_v3
deepseek-ai/DeepSeek-R1-0528-Qwen3-8B json
moonshotai/Kimi-K2-Instruct-0905 kimi_k2
moonshotai/Kimi-K3 kimi_k3
upstage/Solar-Open-100B solar_open
LGAI-EXAONE/EXAONE-4.0-32B hermes
MiniMaxAI/MiniMax-M3 minimax_m3
tencent/Hy3-preview hy_v3
tencent/Hy4-preview-FP8 hy_v4
stepfun-ai/Step-5-Preview-BF16 step3p5
meta/muse-spark-1.3 muse_glimmer
Nanbeige/Nanbeige4.2-3B hermes
internlm/Intern-S1-mini internlm
internLM/Intern-S2-Preview qwen3_coder
llm-jp/llm-jp-4.1-8b-thinking llm-jp-harmony
llm-jp-4.1-32b-a3b-thinking-Q4_K_M.gguf llm-jp-harmony
llm-jp/llm-jp-4-8b-thinking harmony
plamo-3.0-prime-beta plamo3
pfnet/plamo-3-nict-8b-base plamo3
IQuestLab/IQuest-Q1 iquest_q1
reflectionai/Beam beam
reflection-ai/beam-501b beam
ai-sage/GigaChat3.1-10B-A1.8B gigachat3
RekaAI/reka-edge-2603 reka
CohereForAI/c4ai-command-r-plus-08-2024 command_r
CohereLabs/c4ai-command-r7b-12-2024 cohere_command3
ai-sage/GigaChat3.5-Ultra gigachat35
upstage/Solar-Open2-250B solar_open2
meta-models/Muse-Glimmer-30B muse_glimmer
thinkingmachines/Inkling-Small inkling
LLM360/K2-Horizon k2_horizon
miromind-ai/MiroThinker-v1.0-30B mirothinker
rednote-hilab/dots.llm2.inst dots
poolside/Laguna-XS.2 glm45
inclusionAI/Ling-3.0-flash glm45
XiaomiMiMo/MiMo-V2-Flash qwen3_coder
arcee-ai/Trinity-Mini hermes
speakleash/Bielik-11B-v3.0-Instruct hermes
ServiceNow-AI/Apriel-1.5-15b-Thinker jamba
fireworks-ai/llama-3-firefunction-v2 phi4_mini
zai-org/GLM-4.5-Air-FP8 glm45
zai-org/GLM-4.6 glm45
zai-org/GLM-4.7-Flash glm47
openai/gpt-oss-120b harmony
gpt-oss:20b harmony
/models/ggml-org_gpt-oss-20b-mxfp4.gguf harmony
C:\\models\\gpt-oss-20b.gguf harmony
ibm-granite/granite-3.1-8b-instruct granite
ibm-granite/granite-4.0-h-small granite4
granite4:micro granite4
ibm-granite/granite-20b-functioncalling granite_20b_fc
microsoft/Phi-4-mini-instruct phi4_mini
internlm/internlm2_5-7b-chat internlm
internlm/internlm3-8b-instruct internlm
ai21labs/AI21-Jamba-1.5-Mini jamba
tencent/Hunyuan-A13B-Instruct hunyuan
nvidia/NVIDIA-Nemotron-Nano-9B-v2 nemotron
nvidia/Llama-3_3-Nemotron-Super-49B-v1_5 nemotron
Salesforce/Llama-xLAM-2-8B-fc-r xlam
Salesforce/xLAM-1B-fc-r xlam
MiniMaxAI/MiniMax-M2.5 minimax_m2
stepfun-ai/step3 step3
stepfun-ai/Step-3.5-Flash step3p5
google/functiongemma-270m-it functiongemma
google/gemma-4-31B-it gemma4
CohereLabs/c4ai-command-r7b-12-2024 cohere_command3
CohereLabs/command-a-reasoning-08-2025 cohere_command3
swiss-ai/Apertus-8B-Instruct-2509 apertus
meetkai/functionary-small-v3.1-GGUF functionary_v31
meetkai/functionary-medium-v3.2 functionary_v32
LiquidAI/LFM2-1.2B lfm2
allenai/Olmo-3-7B-Instruct olmo3
ByteDance-Seed/Seed-OSS-36B-Instruct seed_oss
baidu/ERNIE-4.5-21B-A3B-Thinking ernie45
meituan-longcat/LongCat-Flash-Chat-FP8 longcat
openbmb/MiniCPM5-1B minicpm5
hf.co/bartowski/Qwen2.5-7B-Instruct-GGUF:Q4_K_M hermes
/cache/hub/models--Qwen--Qwen2.5-7B-Instruct/snapshots/a09a35458c702b33eeacc393d103063234e8bc28 hermes
"""

UNKNOWN = """
gpt-4o claude-sonnet-4-5 gemini-2.5-pro my-model default SmolLM2-135M-Instruct microsoft/phi-4 google/gemma-2-9b-it
meta-llama/Meta-Llama-3-8B-Instruct meta-llama/Llama-2-13b-chat-hf mistralai/Mistral-7B-Instruct-v0.2
THUDM/glm-4-9b-chat
openbmb/MiniCPM3-4B allenai/OLMo-2-1124-7B-Instruct NousResearch/Nous-Hermes-2-Yi-34B
""".split()  # noqa: SIM905 - far easier to read


@pytest.mark.parametrize(("model", "name"), [line.rsplit(" ", 1) for line in KNOWN.strip().splitlines()])
def test_the_name_tells_the_family(model: str, name: str) -> None:
    assert registry.family_of(model) == name
    assert registry.family_of(model.upper()) == name


@pytest.mark.parametrize("model", [*UNKNOWN, "", "/", "--", "é" * 100])
def test_an_unknown_name_tells_nothing(model: str) -> None:
    assert registry.family_of(model) is None


def test_every_line_names_a_format_and_is_reached() -> None:
    for glob, name in registry.table():
        assert name in registry.names()
        sample = re.sub(r"\[(.)[^]]*\]", r"\1", glob).replace("*", "-x-")
        assert registry.family_of(f"org/{sample}-8b-instruct-awq") == name, glob
        assert registry.family_of(f"us.{sample}:latest") == name, glob


# Names that two lineages' globs match: what decides, and why.
BETWEEN = {
    "deepseek-r1-0528-qwen3-8b": "json",  # a fine-tune that says so itself
    "hermes3-llama3.1-8b": "hermes",
    "llama-3_3-nemotron-super-49b-v1_5": "nemotron",
    "Qwen3-30B-A3B-Thinking-2507-Deepseek-v3.1-Distill": "deepseek_v31",  # teachers first, in the order of _FIRST
    "Qwen3-4B-gpt-oss-distill": "hermes",
    "Qwen3-8B-Kimi-K2-distill": "hermes",
    "gemma-4-31b-glm-4.7-distill": "glm47",
    "granite-4.0-gpt-oss-distill": "harmony",
    "gemma-3-12b-exaone-4-mix": "hermes",  # other makers' models last, the longer glob first
    "step-3.5-flash": "step3p5",  # the longer glob of one lineage
    "deepseek-v3.2-exp-base": "deepseek_v31",
}


@pytest.mark.parametrize(("model", "name"), BETWEEN.items())
def test_a_rule_decides_between_two_lineages(model: str, name: str) -> None:
    assert registry.family_of(model) == name


# Versions that no family names, and whose prompt they get: the newest one's before them.
NEWER = {
    "deepseek-ai/DeepSeek-V5": "deepseek_v41",
    "deepseek-v4.2-flash": "deepseek_v41",
    "deepseek-v3.3": "deepseek_v32",
    "zai-org/GLM-6": "glm47",
    "glm-4.8-air": "glm47",
    "Qwen/Qwen4-32B-Instruct": "qwen3_coder",
    "qwen4:8b": "qwen3_coder",
    "moonshotai/Kimi-K4": "kimi_k3",
    "mistralai/Mistral-Large-4-0": "mistral_v11",
    "meta-llama/Llama-5-Scout": "llama4_pythonic",
    "google/gemma-5-12b-it": "gemma4",
    "tencent/Hy5": "hy_v4",
    "internlm/Intern-S3": "qwen3_coder",
    "llm-jp-5-8b": "llm-jp-harmony",
}


@pytest.mark.parametrize(("model", "name"), NEWER.items())
def test_an_unknown_version_is_taken_for_the_newest_before_it_and_told(
    model: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    registry._family_of.cache_clear()
    assert registry.family_of(model) == name
    assert registry.family_of(model) == name
    part = re.split("[/\\\\]", model)[-1].lower()
    assert [record.getMessage() for record in caplog.records] == [
        f"'{part}' is of a version that is not known: its prompt is written as for {name}."
    ]


# Numbers that are no version, and versions before all that are known.
NOT_NEWER = """
qwen-72b-chat qwen-4b llama-7b Llama-2-70b gemma-27b-it mistral-small-24b-instruct-2501 glm-4-9b-chat
glm-4.1v-9b-thinking deepseek-v2.5 deepseek-llm-67b hy-7b step-2-16k olmo-1b notqwen9 qwen20250801 qwen-5.5b
""".split()  # noqa: SIM905 - far easier to read


@pytest.mark.parametrize(
    "model", [*NOT_NEWER, *(model for model, _ in (line.rsplit(" ", 1) for line in KNOWN.strip().splitlines()))]
)
def test_no_other_number_is_a_newer_version(model: str, caplog: pytest.LogCaptureFixture) -> None:
    registry._family_of.cache_clear()
    name = registry.family_of(model)
    assert not caplog.records
    if model in NOT_NEWER:
        assert name in {None, "mistral_old"}  # by a name without a number


def test_the_families_that_come_first_are_there() -> None:
    for names in registry._FIRST:
        assert any(family.name.startswith(names) for family in markup.families()), names


LOOSE = {"react", "action_json", "function_call", "tool_code", "tool_tags"}  # nobody was trained on them


def test_every_family_has_a_model() -> None:
    assert {name for _, name in registry.table()} == set(registry.names()) - {"auto", *LOOSE}


@pytest.mark.slow
def test_a_hostile_name_costs_no_time() -> None:
    start = time.process_time()
    for number in range(200):
        registry.family_of(f"{'-' * 200}{number}{'/llama3' * 20}")
        registry.family_of("functionary" * 100_000)
    assert time.process_time() - start < 1.0
