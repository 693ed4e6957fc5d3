"""From config dataclasses to argparse keywords."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from vllm_tables.classes import Classes
from vllm_tables.outside import FORM_NAMES, flat_literal, safely
from vllm_tables.tree import flatten
from vllm_tables.values import MISSING, UNKNOWN, Cls, Ext, Form, Module


class Kwargs:
    """vLLM's ``get_kwargs``: argparse keywords for the fields of a config dataclass."""

    def __init__(self, interpreter: Classes) -> None:
        self.vm = interpreter
        self._habits: dict[str, frozenset[str]] = {}

    def of(self, cls: Cls, module: Module) -> dict[str, dict[str, Any]]:
        habits = self.habits(module)
        out: dict[str, dict[str, Any]] = {}
        for name, (hint, owner) in self.fields(cls).items():
            default = self.vm.class_attribute(cls, name, cls)
            out[name] = self.keywords(self.atoms(hint, owner), default, habits)
        return out

    def habits(self, module: Module) -> frozenset[str]:
        """The words of the release's own get_kwargs, by which its versions are told apart."""
        if module.name not in self._habits:
            functions = (
                "get_kwargs", "_compute_kwargs", "literal_to_kwargs", "collection_to_kwargs"
            )  # fmt: skip
            nodes = [node for name in functions for node in module.bindings.get(name, ())]
            self._habits[module.name] = frozenset(
                word for node in nodes for inner in ast.walk(node) for word in words(inner)
            )
        return self._habits[module.name]

    def fields(self, cls: Cls) -> dict[str, tuple[ast.expr, Cls]]:
        """Annotation of each field with the class that it stands in, those of the bases first."""
        hints: dict[str, tuple[ast.expr, Cls]] = {}
        for owner in reversed(list(self.vm.mro(cls))):
            for node in flatten(owner.node.body):
                if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                    continue
                if "ClassVar" not in ast.unparse(node.annotation):
                    hints[node.target.id] = (node.annotation, owner)
        return hints

    def atoms(self, hint: ast.expr, owner: Cls) -> list[Any]:
        """The members of the union that an annotation describes."""
        return list(self._split(self.vm.eval(hint, owner.scope), owner))

    def _split(self, hint: Any, cls: Cls) -> Iterator[Any]:
        if isinstance(hint, str):  # a forward reference
            parsed = safely(ast.parse, hint, mode="eval")
            hint = UNKNOWN if parsed is UNKNOWN else self.vm.eval(parsed.body, cls.scope)
        if isinstance(hint, Form) and hint.name == "Union":
            for arg in hint.args:
                yield from self._split(arg, cls)
        elif isinstance(hint, Cls) and self.vm.has_base(hint, ("dict", "Dict", "OrderedDict")):
            yield Ext("builtins.dict")
        else:
            yield hint

    def keywords(self, atoms: list[Any], default: Any, habits: frozenset[str]) -> dict[str, Any]:
        out: dict[str, Any] = {"default": None if default is MISSING else default}
        kinds = {kind_of(atom) for atom in atoms}
        if "is_dataclass" in habits and any(isinstance(atom, Cls) and self.vm.is_dataclass(atom) for atom in atoms):
            return out  # one JSON document
        if "?" in habits and kinds == {"bool", "str", "None"}:
            out["nargs"] = "?"
        elif "bool" in kinds:
            out["action"] = Ext("argparse.BooleanOptionalAction")
        elif "Literal" in kinds:
            self._choices(out, atoms, kinds, habits)
        elif kinds & {"tuple", "list", *({"set"} & habits)}:
            self._collection(out, atoms, kinds, habits)
        return out

    def _choices(self, out: dict[str, Any], atoms: list[Any], kinds: set[str], habits: frozenset[str]) -> None:
        if "metavar" in habits and "str" in kinds:
            return  # any other string is accepted as well
        literals = [atom for atom in atoms if kind_of(atom) == "Literal"]
        # vLLM looks at the first Literal only, but no release has two in one annotation.
        choices = safely(sorted, flat_literal(literals[0]))
        out["choices"] = choices
        if "None" in kinds and isinstance(choices, list):
            choices.append("None")

    def _collection(self, out: dict[str, Any], atoms: list[Any], kinds: set[str], habits: frozenset[str]) -> None:
        wanted = next(kind for kind in ("tuple", "list", "set") if kind in kinds)
        atom = next(atom for atom in atoms if kind_of(atom) == wanted)
        out["nargs"] = "+"
        element = atom.args[0] if isinstance(atom, Form) and atom.args else None
        if "literal_to_kwargs" in habits and kind_of(element) == "Literal":
            self._choices(out, [element], {"Literal", *({"None"} & kinds)}, habits)


def words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def kind_of(hint: Any) -> str:
    """The name of a type: "bool", "list", "Literal", "None"; "?" for a class."""
    if hint is None:
        return "None"
    if isinstance(hint, Form):
        return hint.name
    if isinstance(hint, Ext):
        return FORM_NAMES.get(hint.last, hint.last)
    return "?"
