from __future__ import annotations

import json
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from vllm_tables import command, fetch
from vllm_tables.environment import envs_of
from vllm_tables.interpreter import Interpreter
from vllm_tables.options import options_of
from vllm_tables.quantization import quantization_of
from vllm_tables.tree import Tree
from vllm_tables.write import hoist, spans

# vLLM 0.5 to 0.8: everything in add_argument, defaults in class attributes.
OLD = {
    "vllm/scripts.py": """
        from vllm.entrypoints.openai.cli_args import make_arg_parser
        from vllm.utils import FlexibleArgumentParser

        def main():
            parser = FlexibleArgumentParser(description="vLLM CLI")
            subparsers = parser.add_subparsers(required=True)
            serve_parser = subparsers.add_parser("serve", help="serve")
            serve_parser.add_argument("model_tag", type=str)
            serve_parser = make_arg_parser(serve_parser)
            chat_parser = subparsers.add_parser("chat")
            chat_parser.add_argument("--system-prompt", type=str)
            args = parser.parse_args()
            if hasattr(args, "dispatch_function"):
                args.dispatch_function(args)
    """,
    "vllm/utils.py": """
        import argparse

        class FlexibleArgumentParser(argparse.ArgumentParser):
            pass
    """,
    "vllm/entrypoints/openai/cli_args.py": """
        import json
        from vllm.engine.arg_utils import AsyncEngineArgs

        def make_arg_parser(parser):
            parser.add_argument("--port", type=int, default=8000)
            parser.add_argument("--allowed_origins", type=json.loads, default=["*"])
            parser.add_argument("--lora-modules", nargs="+", default=None)
            parser = AsyncEngineArgs.add_cli_args(parser)
            return parser
    """,
    "vllm/engine/arg_utils.py": """
        from dataclasses import dataclass
        from typing import Optional

        from vllm.config import LoadFormat
        from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS
        from vllm.platforms import current_platform

        @dataclass
        class EngineArgs:
            model: str = "facebook/opt-125m"
            block_size: int = 16
            swap_space: float = 4  # GiB
            max_num_seqs: int = 256
            seed: Optional[int] = None

            @staticmethod
            def add_cli_args(parser):
                parser.add_argument("--model", type=str, default=EngineArgs.model)
                parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
                parser.add_argument("--block-size", type=int, default=EngineArgs.block_size,
                                    choices=[8, 16, 32])
                parser.add_argument("--swap-space", type=float, default=EngineArgs.swap_space)
                parser.add_argument("--load-format", default="auto",
                                    choices=[f.value for f in LoadFormat])
                parser.add_argument("--quantization", "-q", choices=[*QUANTIZATION_METHODS, None])
                parser.add_argument("--enable-chunked-prefill", nargs="?", const="True")
                parser.add_argument("--enforce-eager", action="store_true")
                parser.add_argument("--device-default", default=current_platform.device_name())
                return parser

        @dataclass
        class AsyncEngineArgs(EngineArgs):
            @staticmethod
            def add_cli_args(parser, async_args_only=False):
                if not async_args_only:
                    parser = EngineArgs.add_cli_args(parser)
                if current_platform.is_cuda():
                    parser.add_argument("--only-on-cuda", action="store_true")
                parser.add_argument("--disable-log-requests", action="store_true")
                return parser
    """,
    "vllm/config.py": """
        import enum

        class LoadFormat(str, enum.Enum):
            AUTO = "auto"
            PT = "pt"
    """,
    "vllm/platforms/__init__.py": """
        def find():
            import somewhere_else
            return somewhere_else.platform()

        current_platform = find()
    """,
    "vllm/model_executor/layers/quantization/__init__.py": """
        from typing import Dict, Type
        from vllm.model_executor.layers.quantization.awq import AWQConfig
        from vllm.model_executor.layers.quantization.inc import INCConfig

        QUANTIZATION_METHODS: Dict[str, Type] = {"awq": AWQConfig, "inc": INCConfig}
    """,
    "vllm/model_executor/layers/quantization/base.py": """
        class QuantizationConfig:
            @classmethod
            def get_min_capability(cls) -> int:
                raise NotImplementedError
    """,
    "vllm/model_executor/layers/quantization/awq.py": """
        from .base import QuantizationConfig

        class AWQConfig(QuantizationConfig):
            def get_min_capability(self) -> int:
                # The AWQ kernel only supports Turing or newer GPUs.
                return 75
    """,
    "vllm/model_executor/layers/quantization/inc.py": """
        from .base import QuantizationConfig

        class INCConfig(QuantizationConfig):
            @classmethod
            def get_min_capability(cls) -> int:
                raise AssertionError("not for GPUs")
    """,
    "vllm/envs.py": """
        import os
        from typing import TYPE_CHECKING, Any, Callable, Dict

        if TYPE_CHECKING:
            VLLM_PORT: int = 1

        def get_default_cache_root():
            return os.getenv("XDG_CACHE_HOME", os.path.join(os.path.expanduser("~"), ".cache"))

        environment_variables: Dict[str, Callable[[], Any]] = {
            "VLLM_CACHE_ROOT":
            lambda: os.path.expanduser(os.getenv("VLLM_CACHE_ROOT",
                                                 os.path.join(get_default_cache_root(), "vllm"))),
            'VLLM_PORT':
            lambda: int(os.getenv('VLLM_PORT', '0')) if 'VLLM_PORT' in os.environ else None,
            "VLLM_USE_MODELSCOPE":
            lambda: os.environ.get("VLLM_USE_MODELSCOPE", "False").lower() == "true",
            "VLLM_TIMEOUT": lambda: int(os.environ.get("VLLM_TIMEOUT", "60")),
            "VLLM_HOST": lambda: compute_host(),
        }
    """,
}

GET_KWARGS = """
        from dataclasses import fields, is_dataclass

        def literal_to_kwargs(type_hints):
            kwarg = "metavar" if contains_type(type_hints, str) else "choices"
            return {kwarg: sorted(get_args(type_hints))}

        def _compute_kwargs(cls):
            for field in fields(cls):
                if is_dataclass(field.type):
                    pass
                elif type_hints == {bool, str, type(None)}:
                    kwargs["nargs"] = "?"
                elif contains_type(type_hints, set):
                    pass

        def get_kwargs(cls):
            return _compute_kwargs(cls)
"""

# vLLM 0.9 and later: arguments derived from config dataclasses.
NEW = {
    "vllm/entrypoints/cli/serve.py": """
        from vllm.entrypoints.common.cli_args import make_arg_parser

        class CLISubcommand:
            name: str

        class ServeSubcommand(CLISubcommand):
            name = "serve"

            def subparser_init(self, subparsers):
                serve_parser = subparsers.add_parser(self.name, usage="vllm serve")
                serve_parser = make_arg_parser(serve_parser)
                serve_parser.epilog = "more"
                return serve_parser
    """,
    "vllm/utils/argparse_utils.py": """
        class FlexibleArgumentParser:
            def parse_args(self, args):
                if args[0] == "-O":
                    args[0] = "--optimization-level"
                if args[0] == "-O2":
                    args = ["-O"]
                return "-O", "--optimization-level"
    """,
    "vllm/entrypoints/common/cli_args.py": """
        import json
        from dataclasses import field
        from typing import Any, Literal

        import vllm.envs as envs
        from vllm.config import config
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.entrypoints.chat import *

        @config
        class BaseFrontendArgs:
            chat_template_format: ChatFormat = "auto"
            allowed_origins: list[str] = field(default_factory=lambda: ["*"])
            middleware: list[str] = field(default_factory=lambda: [])

            @classmethod
            def _customize_cli_kwargs(cls, frontend_kwargs):
                frontend_kwargs["allowed_origins"]["type"] = json.loads
                del frontend_kwargs["allowed_origins"]["nargs"]
                return frontend_kwargs

            @classmethod
            def add_cli_args(cls, parser):
                from vllm.engine.arg_utils import get_kwargs

                frontend_kwargs = cls._customize_cli_kwargs(get_kwargs(cls))
                group = parser.add_argument_group(title=cls.__name__)
                for key, value in frontend_kwargs.items():
                    extra = value.pop("flags", [])
                    group.add_argument(*extra, f"--{key.replace('_', '-')}", **value)
                return parser

        @config
        class FrontendArgs(BaseFrontendArgs):
            port: int = 8000
            log_error_stack: bool = envs.VLLM_SERVER_DEV_MODE

            @classmethod
            def _customize_cli_kwargs(cls, frontend_kwargs):
                frontend_kwargs = super()._customize_cli_kwargs(frontend_kwargs)
                frontend_kwargs["middleware"]["action"] = "append"
                if "nargs" in frontend_kwargs["middleware"]:
                    del frontend_kwargs["middleware"]["nargs"]
                return frontend_kwargs

        def make_arg_parser(parser):
            parser.add_argument("model_tag", nargs="?")
            parser.add_argument("--headless", action="store_true", default=False)
            parser = FrontendArgs.add_cli_args(parser)
            parser = AsyncEngineArgs.add_cli_args(parser)
            return parser
    """,
    "vllm/entrypoints/chat.py": """
        from typing import Literal

        ChatFormat = Literal["auto", "string", "openai"]
    """,
    "vllm/engine/arg_utils.py": GET_KWARGS
    + """
        import argparse
        import sys
        from typing import TYPE_CHECKING

        from vllm.config import CacheConfig, ModelConfig, VllmConfig
        from vllm.platforms import current_platform

        class EngineArgs:
            gpu_memory_utilization: float = CacheConfig.gpu_memory_utilization

            @staticmethod
            def add_cli_args(parser):
                model_kwargs = get_kwargs(ModelConfig)
                group = parser.add_argument_group(title="ModelConfig")
                if not ("serve" in sys.argv[1:] and "--help" in sys.argv[1:]):
                    group.add_argument("--model", **model_kwargs["model"])
                group.add_argument("--dtype", **model_kwargs["dtype"])
                group.add_argument("--quantization", "-q", **model_kwargs["quantization"])
                group.add_argument("--hf-token", **model_kwargs["hf_token"])
                group.add_argument("--config-format", **model_kwargs["config_format"])
                group.add_argument("--served-model-name", **model_kwargs["served_model_name"])
                group.add_argument("--trust-remote-code", **model_kwargs["trust_remote_code"])
                cache_kwargs = get_kwargs(CacheConfig)
                cache_kwargs["backend"]["choices"].remove("hidden")
                group.add_argument("--backend", **cache_kwargs["backend"])
                group.add_argument("--gpu-memory-utilization", "--device-memory-utilization",
                                   dest="gpu_memory_utilization",
                                   **cache_kwargs["gpu_memory_utilization"])
                group.add_argument("--enable-prefix-caching",
                                   **{**cache_kwargs["enable_prefix_caching"], "default": None})
                group.add_argument("--skip-layers", **cache_kwargs["skip_layers"])
                for old in ("guided-a", "guided-b"):
                    group.add_argument(f"--{old}", deprecated=True, type=str)
                vllm_kwargs = get_kwargs(VllmConfig)
                group.add_argument("--compilation-config", "-cc", **vllm_kwargs["compilation_config"])
                group.add_argument("--optimization-level", **vllm_kwargs["optimization_level"])
                group.add_argument("--device", choices=["auto"] + [current_platform.device_type])
                return parser

        class AsyncEngineArgs(EngineArgs):
            @staticmethod
            def add_cli_args(parser, async_args_only=False):
                current_platform.pre_register_and_update(parser)
                if not async_args_only:
                    parser = EngineArgs.add_cli_args(parser)
                parser.add_argument("--enable-log-requests",
                                    action=argparse.BooleanOptionalAction, default=False)
                return parser
    """,
    "vllm/config/__init__.py": """
        from .cache import CacheConfig
        from .model import ModelConfig
        from .utils import config
        from .vllm import VllmConfig
    """,
    "vllm/config/utils.py": """
        def config(cls=None):
            return cls
    """,
    "vllm/config/model.py": """
        from typing import TYPE_CHECKING, Any, Literal, Optional

        from pydantic import Field, SkipValidation
        from vllm.config.utils import config

        if TYPE_CHECKING:
            from vllm.layers import Methods
        else:
            Methods = Any

        ModelDType = Literal["auto", "half"]

        @config
        class ModelConfig:
            model: str = "some/model"
            dtype: ModelDType | None = "auto"
            quantization: SkipValidation[Methods | None] = None
            hf_token: bool | str | None = None
            config_format: str | Literal["hf", "mistral"] = "auto"
            served_model_name: Optional["str | list[str]"] = None
            trust_remote_code: bool = False
    """,
    "vllm/config/cache.py": """
        from dataclasses import field
        from typing import ClassVar, Literal

        from pydantic import Field
        from vllm.config.utils import config

        First = Literal["native"]

        @config
        class CacheConfig:
            DEFAULT: ClassVar[int] = 16
            backend: Literal[First, "hidden", "lmcache"] = "native"
            gpu_memory_utilization: float = Field(default=0.92, gt=0, le=1)
            enable_prefix_caching: bool = True
            skip_layers: set[str] = field(default_factory=set)
    """,
    "vllm/config/vllm.py": """
        from enum import IntEnum

        from pydantic import Field
        from vllm.config.utils import config

        class OptimizationLevel(IntEnum):
            O0 = 0
            O2 = 2

        @config
        class CompilationConfig:
            mode: bool = False

        @config
        class VllmConfig:
            compilation_config: CompilationConfig = Field(default_factory=CompilationConfig)
            optimization_level: OptimizationLevel = OptimizationLevel.O2
    """,
    "vllm/platforms/__init__.py": OLD["vllm/platforms/__init__.py"],
    "vllm/envs.py": """
        import os

        def env_with_choices(env_name, default, choices):
            def _get_validated_env():
                value = os.getenv(env_name)
                if value is None:
                    return default
                return value
            return _get_validated_env

        def maybe_convert_int(value):
            if value is None:
                return None
            return int(value)

        environment_variables = {
            "VLLM_PRECISION": env_with_choices("VLLM_PRECISION", "highest", ["highest", "high"]),
            "VLLM_SERVER_DEV_MODE": lambda: bool(int(os.getenv("VLLM_SERVER_DEV_MODE", "0"))),
            "VLLM_BUFFER": lambda: int(os.getenv("VLLM_BUFFER", str(16 * 1024 * 1024))),
            "VLLM_SPACE": lambda: maybe_convert_int(os.getenv("VLLM_SPACE", None)),
        }
    """,
    "vllm/model_executor/layers/quantization/__init__.py": """
        from typing import Literal, get_args

        QuantizationMethods = Literal["awq", "fp8", "plugged"]
        QUANTIZATION_METHODS: list[str] = list(get_args(QuantizationMethods))
        CUSTOM = {}

        def get_quantization_config(quantization):
            if quantization not in QUANTIZATION_METHODS:
                raise ValueError(f"Invalid quantization method: {quantization}")
            from .fp8 import AWQConfig, Fp8Config

            method_to_config = {"awq": AWQConfig, "fp8": Fp8Config}
            method_to_config.update(CUSTOM)
            return method_to_config[quantization]
    """,
    "vllm/model_executor/layers/quantization/fp8.py": """
        from vllm.platforms import current_platform

        class Fp8Config:
            @classmethod
            def get_min_capability(cls) -> int:
                if current_platform.is_xpu():
                    return -1
                return 75

        class AWQConfig(Fp8Config):
            pass
    """,
}


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return root


@pytest.fixture
def old(tmp_path: Path) -> Any:
    return Interpreter(Tree(plant(tmp_path, OLD)))


@pytest.fixture
def new(tmp_path: Path) -> Any:
    return Interpreter(Tree(plant(tmp_path, NEW)))


def brief(options: dict[str, dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    keys = ("aliases", "kind", "no", "default", "choices")
    return {name: tuple(option[key] for key in keys) for name, option in options.items()}


def test_options_of_the_old_style(old: Any) -> None:
    assert brief(options_of(old)) == {
        "--help": (["-h"], "flag", False, None, None),
        "--port": ([], "value", False, 8000, None),
        "--allowed-origins": ([], "value", False, ["*"], None),
        "--lora-modules": ([], "many", False, None, None),
        "--model": ([], "value", False, "facebook/opt-125m", None),
        "--tensor-parallel-size": (["-tp"], "value", False, 1, None),
        "--block-size": ([], "value", False, 16, ["8", "16", "32"]),
        "--swap-space": ([], "value", False, 4, None),
        "--load-format": ([], "value", False, "auto", ["auto", "pt"]),
        "--quantization": (["-q"], "value", False, None, ["None", "awq", "inc"]),
        "--enable-chunked-prefill": ([], "optional", False, None, None),
        "--enforce-eager": ([], "flag", False, False, None),
        "--device-default": ([], "value", False, None, None),
        "--only-on-cuda": ([], "flag", False, False, None),
        "--disable-log-requests": ([], "flag", False, False, None),
    }
    assert old.problems == []


def test_options_of_the_dataclass_style(new: Any) -> None:
    assert brief(options_of(new)) == {
        "--help": (["-h"], "flag", False, None, None),
        "--headless": ([], "flag", False, False, None),
        "--chat-template-format": ([], "value", False, "auto", ["auto", "openai", "string"]),
        "--allowed-origins": ([], "value", False, ["*"], None),
        "--middleware": ([], "value", False, [], None),
        "--port": ([], "value", False, 8000, None),
        "--log-error-stack": ([], "flag", True, False, None),
        "--model": ([], "value", False, "some/model", None),
        "--dtype": ([], "value", False, "auto", ["None", "auto", "half"]),
        "--quantization": (["-q"], "value", False, None, None),
        "--hf-token": ([], "optional", False, None, None),
        "--config-format": ([], "value", False, "auto", None),
        "--served-model-name": ([], "many", False, None, None),
        "--trust-remote-code": ([], "flag", True, False, None),
        "--backend": ([], "value", False, "native", ["lmcache", "native"]),
        "--gpu-memory-utilization": (["--device-memory-utilization"], "value", False, 0.92, None),
        "--enable-prefix-caching": ([], "flag", True, None, None),
        "--skip-layers": ([], "many", False, [], None),
        "--guided-a": ([], "value", False, None, None),
        "--guided-b": ([], "value", False, None, None),
        "--compilation-config": (["-cc"], "value", False, None, None),
        "--optimization-level": (["-O"], "value", False, 2, None),
        "--device": ([], "value", False, None, None),
        "--enable-log-requests": ([], "flag", True, False, None),
    }
    assert new.problems == []


def test_the_first_get_kwargs_had_other_habits(tmp_path: Path) -> None:
    files = dict(NEW)
    files["vllm/engine/arg_utils.py"] = NEW["vllm/engine/arg_utils.py"].replace(
        GET_KWARGS, "\n        def get_kwargs(cls):\n            return {}\n"
    )
    vm = Interpreter(Tree(plant(tmp_path, files)))
    found = options_of(vm)
    assert (found["--hf-token"]["kind"], found["--hf-token"]["no"]) == ("flag", True)
    assert found["--config-format"]["choices"] == ["hf", "mistral"]
    assert found["--skip-layers"]["kind"] == "value"


def test_what_cannot_be_read_is_reported(tmp_path: Path) -> None:
    cli_args = """
        from elsewhere import NAME, KEYWORDS

        def make_arg_parser(parser):
            parser.add_argument(NAME)
            parser.add_argument("--known", **KEYWORDS)
            return parser
    """
    files = {**NEW, "vllm/entrypoints/common/cli_args.py": cli_args}
    vm = Interpreter(Tree(plant(tmp_path, files)))
    assert "--known" in options_of(vm)
    assert len(vm.problems) == 2
    assert "--known: keywords unknown" in vm.problems


def test_variables(old: Any) -> None:
    assert {name: one["default"] for name, one in envs_of(old).items()} == {
        "VLLM_CACHE_ROOT": "~/.cache/vllm",
        "VLLM_PORT": None,
        "VLLM_USE_MODELSCOPE": False,
        "VLLM_TIMEOUT": 60,
        "VLLM_HOST": None,
    }


def test_variables_behind_functions(new: Any) -> None:
    assert {name: one["default"] for name, one in envs_of(new).items()} == {
        "VLLM_PRECISION": "highest",
        "VLLM_SERVER_DEV_MODE": False,
        "VLLM_BUFFER": 16777216,
        "VLLM_SPACE": None,
    }


def test_quantization_methods(old: Any) -> None:
    assert quantization_of(old) == {"awq": {"min_capability": 75}, "inc": {"min_capability": None}}


def test_quantization_methods_with_lazy_imports(new: Any) -> None:
    assert quantization_of(new) == {
        "awq": {"min_capability": 75},
        "fp8": {"min_capability": 75},
        "plugged": {"min_capability": None},
    }


def test_spans_join_neighbours_that_are_equal() -> None:
    table = {"1": {"x": {"a": 1}}, "2": {"x": {"a": 1}}, "3": {"x": {"a": 2}}, "4": {}, "5": {"x": {"a": 2}}}
    assert spans(table, "x") == [
        {"since": "1", "until": "2", "a": 1},
        {"since": "3", "until": "3", "a": 2},
        {"since": "5", "until": "5", "a": 2},
    ]


def test_what_never_changed_stands_in_the_entry() -> None:
    found = [{"since": "1", "kind": "flag", "no": False}, {"since": "2", "kind": "flag", "no": True}]
    assert hoist(found, ("kind", "no")) == {
        "kind": "flag",
        "spans": [{"since": "1", "no": False}, {"since": "2", "no": True}],
    }


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    plant(tmp_path / "trees" / "0.10.0", NEW)
    plant(tmp_path / "trees" / "0.9.0", OLD)
    (tmp_path / "data").mkdir()
    return tmp_path / "trees"


def arguments(trees: Path, *more: str) -> list[str]:
    return ["0.9.0", "0.10.0", "--trees", str(trees), "--data", str(trees.parent / "data"), *more]


def test_files(trees: Path) -> None:
    assert command.main(arguments(trees)) == 0
    text = (trees.parent / "data" / "options.json").read_text(encoding="utf-8")
    document = json.loads(text)
    assert document["schema"] == 1
    assert document["releases"] == ["0.9.0", "0.10.0"]  # in the order of versions, not of words
    assert document["options"]["--port"] == {
        "aliases": [],
        "kind": "value",
        "no": False,
        "spans": [{"choices": None, "default": 8000, "since": "0.9.0", "until": "0.10.0"}],
    }
    assert sum(line.startswith('"--port": {') for line in text.splitlines()) == 1
    methods = json.loads((trees.parent / "data" / "quantization.json").read_text(encoding="utf-8"))["methods"]
    assert methods["inc"] == [{"min_capability": None, "since": "0.9.0", "until": "0.9.0"}]


def test_check(trees: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(arguments(trees, "--check")) == 1
    assert command.main(arguments(trees)) == 0
    assert command.main(arguments(trees, "--check")) == 0
    envs = trees.parent / "data" / "envs.json"
    envs.write_text(envs.read_text(encoding="utf-8").replace("60", "61"), encoding="utf-8")
    capsys.readouterr()
    assert command.main(arguments(trees, "--check")) == 1
    assert capsys.readouterr().out == "stale: envs.json\n"


def test_a_tree_that_is_missing(trees: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["0.11.0", *arguments(trees)]) == 2
    assert "0.11.0" in capsys.readouterr().err


def test_fetch_keeps_only_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(version: str, folder: Path) -> Path:
        with zipfile.ZipFile(folder / "x.whl", "w") as wheel:
            wheel.writestr("vllm/envs.py", "")
            wheel.writestr("vllm/_C.abi3.so", "binary")
            wheel.writestr("other/x.py", "")
        return folder / "x.whl"

    monkeypatch.setattr(fetch, "download", download)
    assert command.main(["0.9.0", "--fetch", "--trees", str(tmp_path)]) == 0
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()] == [
        "0.9.0/vllm/envs.py"
    ]
