"""Digests of code: what a module does, whatever its comments and its layout are.

A digest covers a module's syntax and that of the modules it imports from its own package, directly or not. It is the
same under every version of Python that is supported. What is imported by a computed name is not covered.

An object that decides results (a scorer, a retriever) is digested by the module in which it was found: the functions
of :mod:`ragrounds.base.plugins` note that module with :func:`note_home`.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TypeAlias

FILE_MODULE = "ragrounds_own_"
"""How the names of modules begin that are files of the user's; they end with a hash of the content."""
Import: TypeAlias = tuple[int, str, tuple[str, ...]]
"""An import: dots before the module's name, the name, and the names that are taken from it."""
_OWN = "ragrounds"
_EXTEND = "ragrounds.extend"
_EXTENSIONS = "ragrounds.extensions"
"""Followed wherever it is imported: only an extension imports it, and its code determines answers like the core's."""
_PARTS_OF_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_homes: dict[int, tuple[object, dict[str, str]]] = {}


def note_home(value: object, module: str, name: str = "") -> None:
    """Note in which module an object was found, and under which name there."""
    _homes.setdefault(id(value), (value, {}))[1][module] = name


def home_of(value: object) -> str:
    """The module in which an object was found, the one that makes it before those that import it; by default that of
    its class."""
    places = _homes.get(id(value), (value, {}))[1]
    makers = [module for module, name in places.items() if len(places) == 1 or not _imports(module, name)]
    return (makers or list(places) or [type(value).__module__])[0]


def _imports(module: str, name: str) -> bool:
    """Whether a module takes a name from another one."""
    path = _source(_spec(module))
    return path is not None and any(name in names for _, _, names in _read(path, True, file_mark(path))[1])


def code_digest(module: str, *, within: Sequence[str] = (), without: Sequence[str] = ()) -> str:
    """Hash what a module does, with what it imports from its own package and from the packages `within`.

    Args:
        module: Dotted name. Of a module of this package only imports from `within` and from extensions are followed; of
            any other, those from its top-level package too, or, where it lies in a folder of the user's, from that
            folder.
        within: Dotted names of packages.
        without: Modules of these that are left out, with what they import.

    Returns:
        16 hexadecimal digits.

    Raises:
        ModuleNotFoundError: there is no such module.
    """
    spec = _spec(module)
    if spec is None:
        raise ModuleNotFoundError(f"no module named {module!r}", name=module)
    if module.startswith(FILE_MODULE) and spec.origin:
        return file_digest(Path(spec.origin), within=within, without=without)
    return _combined(_closure({module: spec}, tuple(within), without=frozenset(without)))


def file_digest(path: Path, *, within: Sequence[str] = (), without: Sequence[str] = ()) -> str:
    """Hash what a file does, as :func:`code_digest`, with what it imports from its own folder.

    Returns:
        16 hexadecimal digits.

    Raises:
        SyntaxError: the file is not Python.
    """
    path = path.resolve()
    return _combined(_closure({}, tuple(within), (path,), frozenset(without)))


def files_behind(path: Path) -> tuple[Path, ...]:
    """A file and the files of its own folder that it imports, directly or not."""
    path = path.resolve()
    behind = (entry for name, entry in _closure({}, (), (path,)) if name.partition(".")[0] != _OWN)
    return tuple(sorted({path, *behind}))


def read_source(path: Path) -> tuple[str, tuple[Import, ...]]:
    """The digest of one file that is not of this package, and what it imports.

    Raises:
        SyntaxError: the file is not Python.
    """
    return _read(path, False, file_mark(path))


def tree_digest(tree: ast.AST) -> str:
    """The digest of a source that stands in no file."""
    words: list[str] = []
    _write(tree, words, [], False)
    return text_digest(*words)


def file_mark(path: Path) -> tuple[int, int]:
    """When a file was changed (nanoseconds) and its size (bytes): what is known of it holds while these stay."""
    held = path.stat()
    return held.st_mtime_ns, held.st_size


def absolute_names(wanted: Import, package: str) -> Iterator[str]:
    """The dotted names that an import of a package's module may mean: modules, or names in one."""
    level, module, names = wanted
    if level:
        base = package.split(".")[: len(package.split(".")) - level + 1] if package else []
        module = ".".join([*base, *([module] if module else [])])
    yield from (module, *(f"{module}.{name}" if module else name for name in names))


def module_file(folder: Path, full: str) -> Path | None:
    """The file of a module that lies in a folder, as `import` would find it there."""
    place = folder.joinpath(*full.split("."))
    for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
        if path.is_file():
            return path
    return None


def text_digest(*texts: str) -> str:
    """Hash some texts (16 hexadecimal digits)."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _combined(found: dict[tuple[str, Path], str]) -> str:
    # By name alone: the same code in another folder is the same.
    parts = sorted(f"{name}\0{digest}" for (name, _), digest in found.items())
    return text_digest(*parts)


def _closure(
    modules: dict[str, ModuleSpec],
    within: tuple[str, ...],
    paths: tuple[Path, ...] = (),
    without: frozenset[str] = frozenset(),
) -> dict[tuple[str, Path], str]:
    """Digests of modules and of all that they import, by name and file."""
    done: dict[tuple[str, Path], str] = {}
    left = [(name, path) for name, spec in modules.items() if (path := _source(spec)) is not None]
    left += [(path.stem, path) for path in paths]
    folder = paths[0].parent if paths else next((path.parent for name, path in left if _lies_alone(name, path)), None)
    beside = cache(partial(module_file, folder)) if folder is not None else None
    roots = (_EXTENSIONS, *(root for name in modules if (root := name.partition(".")[0]) != _OWN))
    while left:
        name, path = left.pop()
        if (name, path) in done or name in without:
            continue
        digest, imports = _read(path, name.partition(".")[0] == _OWN, file_mark(path))
        done[name, path] = digest
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for wanted in imports:
            left += _resolved(wanted, package, (*within, *roots), beside)
    return done


def _resolved(
    wanted: Import, package: str, within: tuple[str, ...], beside: Callable[[str], Path | None] | None
) -> Iterator[tuple[str, Path]]:
    """The modules that an import names, as far as they are covered; `beside` looks into the user's folder."""
    for full in absolute_names(wanted, package):
        if any(full == root or full.startswith(f"{root}.") for root in within):
            spec = _spec(full)
            if (source := _source(spec)) is not None:
                yield full, source
            if spec is not None and spec.submodule_search_locations is None:
                return  # no package: the names that are taken from it are no modules
        elif beside is not None and full.partition(".")[0] != _OWN and (path := beside(full)):
            yield full, path  # this package itself may lie beside a user's file: in a clone


def _lies_alone(name: str, path: Path) -> bool:
    """Whether a module is a file in a folder of the user's: what lies beside it is its own code."""
    return "." not in name and path.name != "__init__.py" and not {"site-packages", "dist-packages"} & {*path.parts}


def _source(spec: ModuleSpec | None) -> Path | None:
    """The file of a module that is written in Python."""
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None


def _spec(name: str) -> ModuleSpec | None:
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__spec__ is not None:
        return loaded.__spec__
    try:
        return importlib.util.find_spec(name)
    except (ImportError, AttributeError, ValueError):  # `from package import name` of something that is no module
        return None


@lru_cache(maxsize=4096)
def _read(path: Path, own: bool, mark: tuple[int, int]) -> tuple[str, tuple[Import, ...]]:
    """The digest of one file, and what it imports. Docstrings count in code that is not of this package: LangChain
    shows those of tools to models."""
    tree = ast.parse(path.read_bytes(), filename=str(path))
    words: list[str] = []
    imports: list[Import] = []
    _write(tree, words, imports, own)
    return text_digest(*words), tuple(imports)


def _write(node: ast.AST, words: list[str], imports: list[Import], own: bool) -> None:
    """Write a tree as words: kinds of nodes and their fields, without places and without what is empty, so that
    versions of Python that know more fields write the same."""
    if isinstance(node, ast.ImportFrom) and node.module == _EXTEND and not node.level:
        places = importlib.import_module(_EXTEND).places()  # what is imported there is defined elsewhere
        found = (places[alias.name].partition(":") for alias in node.names if alias.name in places)
        imports += [(0, module, (name,)) for module, _, name in found]
    elif isinstance(node, ast.ImportFrom):
        imports.append((node.level, node.module or "", tuple(alias.name for alias in node.names)))
    elif isinstance(node, ast.Import):
        imports += [(0, alias.name, ()) for alias in node.names]
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in (getattr(node.test, "id", ""), getattr(node.test, "attr", "")):
        # Under it nothing runs.
        for part in node.orelse:
            _write(part, words, imports, own)
        return
    words.append(type(node).__name__)
    for field, value in ast.iter_fields(node):
        if (value is None and not isinstance(node, ast.Constant)) or field in ("ctx", "type_comment", "kind"):
            continue
        if isinstance(value, list):
            held = value
            if field == "body" and own and isinstance(node, _PARTS_OF_DOCUMENTED):
                held = value[ast.get_docstring(node, clean=False) is not None :]
            if isinstance(node, ast.JoinedStr):  # Python 3.12 leaves empty texts between the parts
                held = [part for part in held if not (isinstance(part, ast.Constant) and part.value == "")]
            if held:
                words.append(f"{field}[{len(held)}")
                for part in held:
                    if isinstance(part, ast.AST):
                        _write(part, words, imports, own)
                    else:
                        words.append(repr(part))
        elif isinstance(value, ast.AST):
            words.append(field)
            _write(value, words, imports, own)
        else:
            words.append(f"{field}={value!r}")
