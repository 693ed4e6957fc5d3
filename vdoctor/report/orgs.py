"""Owners of repositories that everybody knows, and the words of which public model names are made.

A name that is made of these words alone, sizes and versions tells which public model something comes from, and nobody.
"""

from __future__ import annotations

import re

#: Accounts on Hugging Face and ModelScope that publish models for everybody, in small letters.
_ORGS = """
01-ai 01.ai abacusai adept ai21labs ai-sweden ai4bharat aimagelab aisingapore allenai alibaba-nlp alibaba-pai amazon amd
answerdotai apple arcee-ai argilla bartowski baai baichuan-inc baidu bigcode bigscience black-forest-labs bosonai briaai
bytedance bytedance-research bytedance-seed casperhansen cerebras codellama cognitivecomputations cohereforai coherelabs
databricks deepcogito deepseek-ai dicta-il distilbert distil-whisper eleutherai eva-unit-01 facebook facebookai fastvideo
fixie-ai google google-bert google-t5 gradientai gritlm h2oai huggingface huggingfaceh4 huggingfacem4 huggingfacetb
hugging-quants hmellor hpcai-tech ibm ibm-granite ibm-research idefics inceptionai inclusionai inference-net intel
internlm intfloat iquestlab jinaai jinhong-lee kaitchup kakaocorp kimi kwai-keye kwaipilot kwai-kolors laion lgai-exaone
liquidai liuhaotian llava-hf lmms-lab lmstudio-community lmsys maziyarpanahi meituan-longcat meta-llama microsoft
minimaxai mistral-community mistralai mit-han-lab mixedbread-ai mlx-community modelcloud modelscope moonshotai mosaicml
mradermacher naver-hyperclovax ncsoft neulab neuralmagic nexusflow nexaaidev nomic-ai nousresearch nvidia nvidia-nemotron
openai openai-community openbmb opengvlab opengpt-x openchat open-thoughts openvla openvino orionstarai osmosis-ai
paddlepaddle parasail-ai pfnet phind princeton-nlp prithivmlmods qihoo360 quantfactory qwen qwenlm redhatai
rednote-hilab rhymes-ai runwayml salesforce sarvamai sentence-transformers servicenow servicenow-ai shanghai_ai_laboratory
shieldgemma sakanaai skywork snowflake speakleash stabilityai stanford-crfm state-spaces stepfun-ai swiss-ai t5 teknium
tencent tencent-hunyuan thebloke thudm tiger-lab tiiuae tinyllama togethercomputer tokyotech-llm trl-internal-testing
turboderp ultravox unsloth upstage utter-project vikhyatk vllm vllm-project vidore wizardlm wizardlmteam writer xai-org
xiaomimimo xverse yentinglin zai-org zhipuai zyphra hf-internal-testing adept-hf-collab eurollm hkunlp ibm-fms
"""
ORGS = frozenset(_ORGS.split())

#: What stands for an owner in examples: names nobody.
_PLACEHOLDERS = """
org orgs owner namespace user username your-org your-org-name your-username my-org organization repo repo_name foo
example examples test tests model models path name user-name
"""
PLACEHOLDERS = frozenset(_PLACEHOLDERS.split())

#: Families, kinds, formats and other words of public model names, in small letters.
_WORDS = """
a b m k t e g v x q w r s n i ab bb it pt sft dpo rlhf rm orm prm lm llm vlm mllm moe mtp ssm hf gguf ggml exl awq gptq
fp bf int nf mxfp nvfp mx bit bits bnb bitsandbytes hqq aqlm quip marlin autoround quantized quant dynamic static block
kv cache w4a16 w8a8 compressed tensors uncensored abliterated merged base chat instruct instruction inst reasoning
thinking think think-off non nothink preview exp experimental latest final beta alpha rc release version turbo flash lite
mini nano micro small medium large xl xxl huge big tiny base pro plus max ultra next omni vision video audio image text
ocr code coder coding math prover reward embed embedding embeddings reranker rerank classifier tts asr speech multimodal
multilingual long context token tokens distill distilled pruned sparse dense preview early fusion light heavy high low
llama alpaca vicuna qwen qwq qvq mistral mixtral ministral magistral devstral codestral pixtral voxtral mathstral nemo
nemotron gemma gemini palm paligemma medgemma recurrent deepseek janus phi kimi linear glm chatglm codegeex cogvlm
internlm internvl intern baichuan yi falcon mamba jamba zamba bamba granite starcoder santacoder bloom bloomz opt gpt
oss neox neo j pythia stablelm dolly mpt dbrx olmo olmoe tulu molmo solar exaone hyperclovax command aya cohere arctic
grok minimax hunyuan ernie longcat seed step ring ling mimo smollm smolvlm lfm rwkv xverse orion persimmon fuyu
plamo minicpm nous hermes openhermes zephyr wizardlm wizardcoder openchat dolphin orca platypus tinyllama codellama
llava onevision bakllava idefics florence bert roberta deberta modernbert xlm bart t whisper wav clip siglip vit blip
e5 bge gte gtr jina nomic mxbai minilm mpnet ultravox florence molmo aria ovis keye maverick scout guard shield prompt
orpheus parakeet canary kosmos sparkle instruct-hf meta facebook google microsoft nvidia openai mistralai hf unsloth
tb gb mb cpu gpu cuda rocm random tiny dummy toy test model models default main master checkpoint ckpt weights data
workspace local cache hub lora adapter adapters peft app tmp mnt opt srv home root var llms vllm draft eagle medusa
speculator speculators speculative mlp head en zh cn ja jp ko kr de fr es it pt multi
"""
WORDS = frozenset(_WORDS.split())

_LETTERS = re.compile(r"[A-Za-z]+")


def is_plain(name: str) -> bool:
    """Made of words of public models, sizes and versions alone: `Llama-3.1-8B-Instruct`."""
    return all(len(word) < 2 or word.lower() in WORDS for word in _LETTERS.findall(name))
