"""Verify a bundle offline: derive its figures again from its attempts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import asdict
from rich.console import Console

from ragrounds.api.progress import counted
from ragrounds.api.results import Result
from ragrounds.api.workspace import Progress, chosen_settings
from ragrounds.base.errors import UserError
from ragrounds.base.settings import Settings
from ragrounds.evals.benchmarks import load
from ragrounds.evals.benchmarks.benchmark import Benchmark
from ragrounds.evals.compare.comparison import Comparison
from ragrounds.evals.store.store import Store
from ragrounds.extensions.publishing.bundle import harness, read_bundle
from ragrounds.extensions.publishing.consistency import Derivation
from ragrounds.extensions.publishing.derivation import verify_bundle
from ragrounds.extensions.publishing.leaderboard import Ranking
from ragrounds.extensions.publishing.page_comparison import compare_pages
from ragrounds.ui.tables.comparison_tables import print_comparison, printed_figures
from ragrounds.ui.text import number_of, safe


class VerifiedBundle(Result, frozen=True, kw_only=True):
    """Result of :func:`verify`."""

    bundle: Path
    root: str
    """Root of the Merkle tree over the current records."""
    runs: tuple[str, ...]
    attempts: int
    figures: int
    derived: int
    """Number of figures that the attempts give again."""
    printed: int
    """Number of printed figures that were compared with tables generated again: in the bundle, and on its page."""
    differing: tuple[str, ...]
    """First differences, in order."""
    more: int
    """Number of further differences."""
    underived: Mapping[str, int]
    """Reasons why figures could not be derived, with their counts."""
    notes: tuple[str, ...]
    unshown: tuple[str, ...]
    """Facts that the bundle cannot show, each a clause."""
    made_by: str
    """How the bundle's figures and pages were compared: by the code that made them, or by another version."""
    comparison: Comparison | None
    """Comparison as the attempts give it."""

    @property
    def ended(self) -> str:
        """Verdict: ``holds``; ``fails`` if something differs; ``undecided`` if something could not be derived."""
        return "fails" if self.differing else "undecided" if self.underived else "holds"

    def draw(self, console: Console) -> None:
        """Print the verdict, the table that was derived, and last what the bundle cannot show."""
        for line in self.lines():
            console.print(safe(line, 2000), markup=False, soft_wrap=True)
        if self.comparison is not None:
            print_comparison(self.comparison, console=console)
        console.print("This bundle cannot show:")
        for text in self.unshown:
            console.print(f"- {safe(text, 2000)}", markup=False, soft_wrap=True)

    def lines(self) -> Iterator[str]:
        """Yield the result as lines of text."""
        contents = f"{number_of(len(self.runs), 'run')}, {number_of(self.attempts, 'attempt')}"
        yield (
            f"{self.bundle}: {contents}; {self.derived:,} of {self.figures:,} figures derived, "
            f"{self.printed:,} as printed; root {self.root[:16]}"
        )
        yield self.made_by
        for text in self.differing:
            yield f"Differs: {text}."
        if self.more:
            yield f"Differs: {self.more:,} more."
        for text, count in self.underived.items():
            yield f"Not derived: {count:,} {text}."
        for text in self.notes:
            yield f"Note: {text}"


def verify(
    bundle: str | Path,
    benchmark: str | None = None,
    *,
    page: str | Path | None = None,
    home: str | Path | None = None,
    settings: Settings | None = None,
    progress: Progress | bool | None = None,
) -> VerifiedBundle:
    """Derive every figure of a bundle again from its attempts.

    Answers are scored again, costs are summed again, and the same comparison is made. No model is asked, nothing is
    sent, and the store is not changed.

        rr.verify("site/sample-1a2b3c4d-5e6f70.bundle.jsonl").ended

    Args:
        bundle: a file of ``rr.publish(…, bundle=True)``.
        benchmark: the bundle's benchmark, as `ragrounds run --benchmark` takes it, or its file. It fills in the texts
            that the bundle withholds, and every question is compared with it.
        page: the leaderboard that the bundle was published with. Its ranking, and the page of the comparison next to
            it, are rendered again and compared; by default ``index.html`` next to the bundle, if it exists.
        home, settings: where registered benchmarks are; ``None``: the user's.
        progress: gets how many attempts are derived; ``False``: nothing is shown.

    Raises:
        UserError: no bundle, or no such benchmark.
    """
    read = read_bundle(Path(bundle))
    reference_benchmark = _load_benchmark(
        benchmark, read.statement.predicate.suite.get("name", ""), chosen_settings(settings, home)
    )
    page_path, predicate = Path(page) if page else read.path.with_name("index.html"), read.statement.predicate

    def compare_page(store: Store, ranking: Ranking, free: frozenset[str], derivation: Derivation) -> None:
        """Compare the pages next to the bundle with the ranking that was derived."""
        if page or page_path.is_file():
            compare_pages(store, ranking, free, page_path, predicate.ragrounds.seed, derivation)

    with counted(progress) as tell:
        derivation = verify_bundle(read, printed_figures, reference_benchmark, tell, compare_page)
    made_by, current = predicate.harness.get("version", "an unknown version"), harness()["version"]
    manner = (
        f"Made by this code (ragrounds {current}): sentences, tables and pictures are compared byte by byte."
        if derivation.same_code
        else f"Made by other code or libraries (ragrounds {made_by}; here {current}): names, figures, order, signs and "
        "verdicts are compared, and no wording or picture."
    )
    fields = {name: value for name, value in asdict(derivation).items() if name in VerifiedBundle.__struct_fields__}
    frozen_fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    comparison = None if derivation.ranking is None else derivation.ranking.comparison
    return VerifiedBundle(bundle=read.path, root=read.seal.root, made_by=manner, comparison=comparison, **frozen_fields)


def _load_benchmark(reference: str | None, name: str, settings: Settings) -> Benchmark | None:
    if reference is None:
        return None
    try:
        return load(reference, settings.home)
    except UserError:
        if not Path(reference).exists():
            raise
        return load(f"{name}:{reference}", settings.home)
