"""The house: which room uses which, who prints, how long things are. Read from the source, nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parent.parent / "vdoctor"

#: Upper rooms first: each may use those above itself. Rooms in one row do not know each other.
ORDER: tuple[tuple[str, ...], ...] = (
    ("model", "errors", "data"),
    ("intake",),
    ("launch",),
    ("startup",),
    ("facts",),
    ("rulebase",),
    ("diagnose",),
    ("sieve",),
    ("proof", "store"),
    ("budget",),
    ("live",),
    ("relaunch",),
    ("report",),
    ("demo",),
    ("fleet",),
    ("commands",),
    ("cli",),
    ("__main__",),
)
MAX_MODULE, MAX_FUNCTION = 330, 60
PRINTING = ("commands", "cli", "demo")
#: Rooms without an edge: no files, no clock, no environment, no processes. What they need is passed in.
PURE = (
    "model",
    "errors",
    "intake",
    "launch",
    "startup",
    "facts",
    "rulebase",
    "diagnose",
    "sieve",
    "proof",
    "budget",
    "report",
)
EDGES_IN_PURE_ROOMS = ("intake/files.py", "intake/archives.py", "intake/inputs.py")
IMPURE = (
    "os",
    "subprocess",
    "socket",
    "threading",
    "time",
    "signal",
    "select",
    "selectors",
    "psutil",
    "pynvml",
    "shutil",
)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Module(NamedTuple):
    """A source file, read once."""

    name: str
    room: str
    text: str
    tree: ast.Module

    @property
    def imports(self) -> Iterator[tuple[int, str]]:
        """Line and full name of everything that is imported, also inside functions."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.name}:{node.lineno}: relative import"
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)

    @property
    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All of them, nested ones too."""
        yield from (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    @property
    def definitions(self) -> Iterator[tuple[str, Definition]]:
        """Functions and classes, and the methods of public classes, each with the name that stands before it."""
        for node in self.tree.body:
            if isinstance(node, Definition):
                yield "", node
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield from ((f"{node.name}.", one) for one in node.body if isinstance(one, Definition))


def read(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    place = path.relative_to(PACKAGE)
    return Module(str(place), place.parts[0].removesuffix(".py"), text, ast.parse(text))


MODULES = [read(path) for path in sorted(PACKAGE.rglob("*.py"))]


def level(room: str) -> int:
    return next(at for at, row in enumerate(ORDER) if room in row)


def test_all_modules_stand_in_known_rooms() -> None:
    rooms = {module.room for module in MODULES} - {"__init__"}
    assert rooms <= {room for row in ORDER for room in row}
    assert len(MODULES) > 50


def test_rooms_use_only_rooms_above_them() -> None:
    wrong = []
    for module in MODULES:
        for line, name in module.imports:
            parts = name.split(".")
            if parts[0] != "vdoctor" or len(parts) < 2 or parts[1] in ("__version__", module.room):
                continue
            if module.room == "__init__" or level(parts[1]) >= level(module.room):
                wrong.append(f"{module.name}:{line}: {module.room} uses {parts[1]}")
    assert wrong == []


def test_vllm_and_torch_are_imported_nowhere() -> None:
    wrong = [
        (module.name, name)
        for module in MODULES
        for _, name in module.imports
        if name.split(".")[0] in ("vllm", "torch")
    ]
    assert wrong == []


def test_pynvml_is_imported_by_one_module() -> None:
    users = {module.name for module in MODULES for _, name in module.imports if name.split(".")[0] == "pynvml"}
    assert users == {"live/nvml.py"}


def test_only_commands_print() -> None:
    wrong = []
    for module in MODULES:
        for node in ast.walk(module.tree) if module.room not in PRINTING else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                wrong.append(f"{module.name}:{node.lineno}: print")
            if isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr"):
                wrong.append(f"{module.name}:{node.lineno}: {ast.unparse(node)}")
    assert wrong == []


def test_pure_rooms_have_no_edge() -> None:
    wrong = []
    for module in MODULES:
        if module.room not in PURE or module.name in EDGES_IN_PURE_ROOMS:
            continue
        wrong += [f"{module.name}:{line}: {name}" for line, name in module.imports if name.split(".")[0] in IMPURE]
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
                wrong.append(f"{module.name}:{node.lineno}: open")
    assert wrong == []


def test_modules_are_short() -> None:
    lengths = {module.name: len(module.text.splitlines()) for module in MODULES}
    assert {name: length for name, length in lengths.items() if length > MAX_MODULE} == {}


def test_functions_are_short() -> None:
    lengths = {
        f"{module.name}:{node.lineno}: {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for module in MODULES
        for node in module.functions
    }
    assert {name: length for name, length in lengths.items() if length > MAX_FUNCTION} == {}


def test_modules_have_docstrings_and_the_same_first_import() -> None:
    full = [module for module in MODULES if module.text.strip()]
    assert [module.name for module in full if not ast.get_docstring(module.tree)] == []
    assert [module.name for module in full if "from __future__ import annotations" not in module.text] == []


def test_public_functions_and_classes_have_docstrings() -> None:
    wrong = []
    for module in MODULES:
        for owner, node in module.definitions:
            attribute = any("property" in ast.unparse(one) for one in node.decorator_list)
            if not node.name.startswith("_") and not attribute and not ast.get_docstring(node):
                wrong.append(f"{module.name}:{node.lineno}: {owner}{node.name}")
    assert wrong == []


def test_functions_say_their_types() -> None:
    wrong = []
    for module in MODULES:
        for node in module.functions:
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            untyped = [one.arg for one in arguments if one.annotation is None and one.arg not in ("self", "cls")]
            if node.returns is None or untyped:
                wrong.append(f"{module.name}:{node.lineno}: {node.name}")
    assert wrong == []


def test_nothing_but_tables_lies_beside_the_tables() -> None:
    assert {path.suffix for path in (PACKAGE / "data").iterdir() if path.is_file()} == {".json", ".py"}
