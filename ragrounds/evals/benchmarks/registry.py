"""Registered copies: benchmark files that stand under the home folder and are found by name."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from ragrounds.errors import UserError
from ragrounds.evals.benchmarks.benchmark import Benchmark
from ragrounds.evals.benchmarks.catalogue import FAMILIES, folder, load, parse_reference


def register(name: str, path: Path, home: Path) -> Benchmark:
    """Copy the authors' file of a family under `home`, so that the family and its datasets are found by name.

    The file is loaded first; a broken one is not copied. An older copy is replaced in one step.

    Raises:
        UserError: unknown family, broken file, or a home folder that cannot be written.
    """
    family, _, _ = parse_reference(name)
    if FAMILIES[family].own or family == "sample":
        raise UserError(f"A {family!r} benchmark is not registered: name its file each time, `{family}:PATH`.")
    source = path.expanduser()
    source = source / FAMILIES[family].file if source.is_dir() else source
    benchmark = load(f"{family}:{source}", home)
    target = folder(home) / family / FAMILIES[family].file
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name_ = tempfile.mkstemp(dir=target.parent, prefix=".adding-")
        os.close(handle)
        new = Path(name_)
        try:
            shutil.copyfile(source, new)
            new.chmod(0o644)
            new.replace(target)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write {target}: {error.strerror}. Choose another home with RAGROUNDS_HOME.") from None
    return benchmark
