"""The environment variables of one release."""

from __future__ import annotations

from typing import Any

from vllm_tables.interpreter import Interpreter
from vllm_tables.options import literal


def envs_of(vm: Interpreter) -> dict[str, dict[str, Any]]:
    """The environment variables that vllm/envs.py declares, with their defaults."""
    module = vm.tree.module("vllm.envs")
    table = vm.global_name(module, "environment_variables") if module else {}
    if not isinstance(table, dict):
        vm.problems.append("environment_variables is not a dictionary")
        return {}
    return {
        name: {"default": literal(vm.call(getter, [], {}))} for name, getter in table.items() if isinstance(name, str)
    }
