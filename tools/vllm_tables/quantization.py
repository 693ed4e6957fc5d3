"""The quantisation methods of one release."""

from __future__ import annotations

from typing import Any

from vllm_tables.interpreter import Interpreter
from vllm_tables.values import Cls, Func, Module

QUANTIZATION = "vllm.model_executor.layers.quantization"


def method_classes(vm: Interpreter, module: Module) -> dict[str, Any]:
    """Name to config class: the table itself, or the one built inside get_quantization_config."""
    table = vm.global_name(module, "QUANTIZATION_METHODS")
    if isinstance(table, dict):
        return table
    function = vm.global_name(module, "get_quantization_config")
    if not isinstance(function, Func):
        return {}
    scope = vm.bind_arguments(function, [], {})
    vm.block(function.body, scope, [])
    local = scope.names.get("method_to_config")
    return local if isinstance(local, dict) else {}


def quantization_of(vm: Interpreter) -> dict[str, dict[str, Any]]:
    """Quantisation methods with the minimum compute capability that each asks for."""
    module = vm.tree.module(QUANTIZATION)
    if module is None:
        return {}
    classes = method_classes(vm, module)
    names = vm.iterate(vm.global_name(module, "QUANTIZATION_METHODS")) or list(classes)
    out: dict[str, dict[str, Any]] = {}
    for name in names:
        capability: Any = None
        if isinstance(cls := classes.get(name), Cls):
            capability = vm.call(vm.attribute(cls, "get_min_capability"), [], {})
        is_number = isinstance(capability, int) and not isinstance(capability, bool)
        out[name] = {"min_capability": capability if is_number else None}
    return out
