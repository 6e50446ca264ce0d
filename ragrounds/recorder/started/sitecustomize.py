"""Runs first in a Python program that a system starts: the program's calls go to the process that it comes from.

It makes way for the `sitecustomize` that would have run, and takes its own folder off the path. It may be read by any
interpreter, of Python 2 too.
"""

# mypy: ignore-errors
# ruff: noqa: PTH100, PTH118, PTH120

import os
import sys


def _make_way():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != here]
    this = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, this)
    return os.path.dirname(here)


def _join(folder, place):
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location

    name, *rest = place.split("\n")
    spec = spec_from_file_location(name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
    sys.modules[name] = package = module_from_spec(spec)
    # While it is loaded, its modules import each other through the package around it, which may not be there.
    around = name.partition(".")[0]
    held = sys.modules.setdefault(around, package)
    try:
        spec.loader.exec_module(package)
        import_module(name + ".watch").follow(*rest)
    finally:
        if around != name and held is package:
            del sys.modules[around]


_folder, _place = _make_way(), os.environ.get("RAGROUNDS_PARENT", "")
if _place and sys.version_info >= (3, 9):
    _join(_folder, _place)
