"""Startup code of a Python program that a system starts: the program's calls go to its parent process.

It then runs the `sitecustomize` that it hides, and removes its own folder from the path. Any interpreter may read it,
even Python 2.
"""

# mypy: ignore-errors
# ruff: noqa: PTH100, PTH118, PTH120

import os
import sys


def _restore_sitecustomize():
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != folder]
    own_module = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, own_module)
    return os.path.dirname(folder)


def _join(folder, parent):
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location

    name, *rest = parent.split("\n")
    spec = spec_from_file_location(name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
    sys.modules[name] = package = module_from_spec(spec)
    # While it is loaded, its modules import each other through the enclosing package, which may not exist.
    parent_package = name.partition(".")[0]
    registered = sys.modules.setdefault(parent_package, package)
    try:
        spec.loader.exec_module(package)
        import_module(name + ".watch").follow(*rest)
    finally:
        if parent_package != name and registered is package:
            del sys.modules[parent_package]


_folder, _parent = _restore_sitecustomize(), os.environ.get("RAGROUNDS_PARENT", "")
if _parent and sys.version_info >= (3, 9):
    _join(_folder, _parent)
