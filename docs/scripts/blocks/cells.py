"""Runs Python blocks one after another in one namespace: a process of its own for each page.

Standard input has a line a block, in JSON: its code, its place, and the file for what it prints. The line that is
answered says whether it ran.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import inspect
import json
import os
import sys
import traceback


def main() -> None:
    told = os.fdopen(os.dup(1), "w")
    sys.path.insert(0, "")  # modules in the page's folder, as in a notebook
    given: dict[str, str] = {}
    names: dict[str, object] = {"__name__": "__main__"}
    for line in sys.stdin:
        asked = json.loads(line)
        for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
            if not asked["environment"] and os.environ.get(name) == given.get(name):
                os.environ.pop(name, None)
        given = asked["environment"] or given
        os.environ.update(asked["environment"])
        with open(asked["out"], "w") as out:  # noqa: PTH123
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            ran = _run(asked, names)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
        told.write(json.dumps(ran) + "\n")
        told.flush()


def _run(asked: dict[str, str], names: dict[str, object]) -> bool:
    # Lines of a traceback are the page's.
    code = "\n" * (int(asked["line"]) - 1) + asked["code"]
    try:
        if asked["kind"] == "pycon":
            test = doctest.DocTestParser().get_doctest(asked["code"], names, asked["page"], asked["page"], 0)
            test.globs = names
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            return doctest.DocTestRunner(optionflags=flags).run(test, clear_globs=False).failed == 0
        compiled = compile(code, asked["page"], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        awaited = eval(compiled, names)
        if compiled.co_flags & inspect.CO_COROUTINE:
            asyncio.run(awaited)
    except BaseException:
        sys.stdout.flush()
        traceback.print_exc()
        return False
    return True


if __name__ == "__main__":
    main()
