"""Digests of code that depend on what a module does, but not on its comments and layout.

A digest covers the syntax of a module and of all modules that it imports from its own package, directly or not. All
supported versions of Python give the same digest. Imports by a computed name are not covered.

An object that decides results (a scorer, a retriever) is digested by the module in which it was found. The functions of
:mod:`ragrounds.base.plugins` register that module with :func:`note_home`.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TypeAlias

FILE_MODULE = "ragrounds_own_"
"""Prefix of the module names of users' files. A hash of the content follows at the end."""
Import: TypeAlias = tuple[int, str, tuple[str, ...]]
"""An import: number of leading dots, module name, and the names imported from it."""
_THIS_PACKAGE = "ragrounds"
_EXTEND = "ragrounds.extend"
_EXTENSIONS = "ragrounds.extensions"
"""Package of extensions. Its imports are always followed: its code determines answers as the core's does."""
_NODES_WITH_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_homes: dict[int, tuple[object, dict[str, str]]] = {}


def note_home(value: object, module: str, name: str = "") -> None:
    """Register the module in which an object was found, and its name there."""
    _homes.setdefault(id(value), (value, {}))[1][module] = name


def home_of(value: object) -> str:
    """Return the name of the module in which an object was found.

    A module that defines the object precedes those that import it. The default is the module of the object's class.
    """
    names_by_module = _homes.get(id(value), (value, {}))[1]
    defining_modules = [
        module for module, name in names_by_module.items() if len(names_by_module) == 1 or not _imports(module, name)
    ]
    return (defining_modules or list(names_by_module) or [type(value).__module__])[0]


def _imports(module: str, name: str) -> bool:
    """Return True if a module imports a name from another module."""
    path = _source(_spec(module))
    return path is not None and any(name in names for _, _, names in _read(path, True, file_mark(path))[1])


def code_digest(module: str, *, within: Sequence[str] = (), without: Sequence[str] = ()) -> str:
    """Hash the code of a module with everything that it imports from its own package and from the packages `within`.

    Args:
        module: Dotted name. For a module of ragrounds, only imports from `within` and from extensions are followed. For
            any other module, also those from its top-level package or, if it is in a user's folder, from that folder.
        within: Dotted names of packages.
        without: Modules to leave out, with their imports.

    Returns:
        16 hexadecimal digits.

    Raises:
        ModuleNotFoundError: the module does not exist.
    """
    spec = _spec(module)
    if spec is None:
        raise ModuleNotFoundError(f"no module named {module!r}", name=module)
    if module.startswith(FILE_MODULE) and spec.origin:
        return file_digest(Path(spec.origin), within=within, without=without)
    return _combined(_closure({module: spec}, tuple(within), without=frozenset(without)))


def file_digest(path: Path, *, within: Sequence[str] = (), without: Sequence[str] = ()) -> str:
    """Hash the code of a file with everything that it imports from its own folder, as :func:`code_digest` does.

    Returns:
        16 hexadecimal digits.

    Raises:
        SyntaxError: the file is not Python.
    """
    path = path.resolve()
    return _combined(_closure({}, tuple(within), (path,), frozenset(without)))


def files_behind(path: Path) -> tuple[Path, ...]:
    """Return a file and the files of its folder that it imports, directly or not."""
    path = path.resolve()
    imported_files = (entry for name, entry in _closure({}, (), (path,)) if name.partition(".")[0] != _THIS_PACKAGE)
    return tuple(sorted({path, *imported_files}))


def read_source(path: Path) -> tuple[str, tuple[Import, ...]]:
    """Return the digest of one file outside this package, and its imports.

    Raises:
        SyntaxError: the file is not Python.
    """
    return _read(path, False, file_mark(path))


def tree_digest(tree: ast.AST) -> str:
    """Return the digest of parsed source code that is not in a file."""
    words: list[str] = []
    _write(tree, words, [], False)
    return text_digest(*words)


def file_mark(path: Path) -> tuple[int, int]:
    """Return a file's modification time (nanoseconds) and size (bytes). Cached facts about the file are valid while
    both stay the same.
    """
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def absolute_names(imported: Import, package: str) -> Iterator[str]:
    """Yield the dotted names that an import in a package's module may refer to: modules, or names in a module."""
    level, module, names = imported
    if level:
        base = package.split(".")[: len(package.split(".")) - level + 1] if package else []
        module = ".".join([*base, *([module] if module else [])])
    yield from (module, *(f"{module}.{name}" if module else name for name in names))


def module_file(folder: Path, full: str) -> Path | None:
    """Return the file of a module in a folder, as `import` would find it there."""
    # Every opened system asks for hundreds of modules, most of which are not there: only a file's path is parsed.
    base_path = f"{folder}{os.sep}{full.replace('.', os.sep)}"
    for path in (f"{base_path}{os.sep}__init__.py", f"{base_path}.py"):
        if os.path.isfile(path):  # noqa: PTH113
            return Path(path)
    return None


def text_digest(*texts: str) -> str:
    """Hash texts to 16 hexadecimal digits."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _combined(digests: dict[tuple[str, Path], str]) -> str:
    # Without the paths, so that the same code in another folder has the same digest.
    parts = sorted(f"{name}\0{digest}" for (name, _), digest in digests.items())
    return text_digest(*parts)


def _closure(
    modules: dict[str, ModuleSpec],
    within: tuple[str, ...],
    paths: tuple[Path, ...] = (),
    without: frozenset[str] = frozenset(),
) -> dict[tuple[str, Path], str]:
    """Return the digests of modules and of all that they import, by name and file."""
    done: dict[tuple[str, Path], str] = {}
    pending = [(name, path) for name, spec in modules.items() if (path := _source(spec)) is not None]
    pending += [(path.stem, path) for path in paths]
    folder = (
        paths[0].parent if paths else next((path.parent for name, path in pending if _is_user_file(name, path)), None)
    )
    find_in_folder = cache(partial(module_file, folder)) if folder is not None else None
    roots = (root for name in modules if (root := name.partition(".")[0]) != _THIS_PACKAGE)
    covered = tuple(f"{root}." for root in (*within, _EXTENSIONS, *roots))
    while pending:
        name, path = pending.pop()
        if (name, path) in done or name in without:
            continue
        digest, imports = _read(path, name.partition(".")[0] == _THIS_PACKAGE, file_mark(path))
        done[name, path] = digest
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for imported in imports:
            pending += _resolved(imported, package, covered, find_in_folder)
    return done


def _resolved(
    imported: Import, package: str, covered: tuple[str, ...], find_in_folder: Callable[[str], Path | None] | None
) -> Iterator[tuple[str, Path]]:
    """Yield the modules that an import refers to, if they are in a covered package (``name.``) or in the user's folder,
    which `find_in_folder` searches.
    """
    for full in absolute_names(imported, package):
        if f"{full}.".startswith(covered):
            spec = _spec(full)
            if (source := _source(spec)) is not None:
                yield full, source
            if spec is not None and spec.submodule_search_locations is None:
                return  # not a package, so the imported names are not modules
        elif find_in_folder is not None and full.partition(".")[0] != _THIS_PACKAGE and (path := find_in_folder(full)):
            yield full, path  # in a clone, this package itself may be in the folder of a user's file


def _is_user_file(name: str, path: Path) -> bool:
    """Return True if a module is a file in a user's folder. The other files of that folder are then its own code."""
    return "." not in name and path.name != "__init__.py" and not {"site-packages", "dist-packages"} & {*path.parts}


def _source(spec: ModuleSpec | None) -> Path | None:
    """Return the file of a module that is written in Python."""
    return _path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None


@lru_cache(maxsize=4096)  # a digest of some hundred files resolves each many times; a kept path also keeps its hash
def _path(origin: str) -> Path:
    return Path(origin)


def _spec(name: str) -> ModuleSpec | None:
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__spec__ is not None:
        return loaded.__spec__
    try:
        return importlib.util.find_spec(name)
    except (ImportError, AttributeError, ValueError):  # `from package import name` of an object that is not a module
        return None


@lru_cache(maxsize=4096)
def _read(path: Path, is_own: bool, mark: tuple[int, int]) -> tuple[str, tuple[Import, ...]]:
    """Return the digest of one file and its imports.

    Docstrings count in code outside this package, because LangChain shows docstrings of tools to models.
    """
    tree = ast.parse(path.read_bytes(), filename=str(path))
    words: list[str] = []
    imports: list[Import] = []
    _write(tree, words, imports, is_own)
    return text_digest(*words), tuple(imports)


def _write(node: ast.AST, words: list[str], imports: list[Import], is_own: bool) -> None:
    """Append a syntax tree to `words`: kinds of nodes and their fields.

    Positions and empty fields are left out, so that versions of Python with more fields write the same words.
    """
    if isinstance(node, ast.ImportFrom) and node.module == _EXTEND and not node.level:
        locations = importlib.import_module(_EXTEND).name_locations()  # its names are defined in other modules
        origins = (locations[alias.name].partition(":") for alias in node.names if alias.name in locations)
        imports += [(0, module, (name,)) for module, _, name in origins]
    elif isinstance(node, ast.ImportFrom):
        imports.append((node.level, node.module or "", tuple(alias.name for alias in node.names)))
    elif isinstance(node, ast.Import):
        imports += [(0, alias.name, ()) for alias in node.names]
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in (getattr(node.test, "id", ""), getattr(node.test, "attr", "")):
        # Imports for type checkers are not executed.
        for part in node.orelse:
            _write(part, words, imports, is_own)
        return
    words.append(type(node).__name__)
    for field, value in ast.iter_fields(node):
        if (value is None and not isinstance(node, ast.Constant)) or field in ("ctx", "type_comment", "kind"):
            continue
        if isinstance(value, list):
            parts = value
            if field == "body" and is_own and isinstance(node, _NODES_WITH_DOCSTRINGS):
                parts = value[ast.get_docstring(node, clean=False) is not None :]
            if isinstance(node, ast.JoinedStr):  # Python 3.12 inserts empty texts between the parts
                parts = [part for part in parts if not (isinstance(part, ast.Constant) and part.value == "")]
            if parts:
                words.append(f"{field}[{len(parts)}")
                for part in parts:
                    if isinstance(part, ast.AST):
                        _write(part, words, imports, is_own)
                    else:
                        words.append(repr(part))
        elif isinstance(value, ast.AST):
            words.append(field)
            _write(value, words, imports, is_own)
        else:
            words.append(f"{field}={value!r}")
