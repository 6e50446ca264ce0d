"""A static leaderboard of many runs and studies: a folder of pages that any web server, or none, can show."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec.structs import asdict
from rich.console import Console

from ragrounds.api import arguments
from ragrounds.api.aliases import names_of
from ragrounds.api.arguments import Arg, takes
from ragrounds.api.execution import Workspace
from ragrounds.api.progress import counted
from ragrounds.api.results import Result
from ragrounds.api.workspace import (
    Progress,
    RunsGiven,
    make_folder,
    open_selected_runs,
    open_store,
    run_names,
    texts,
)
from ragrounds.base.errors import UserError
from ragrounds.base.settings import Settings
from ragrounds.evals.benchmarks.cards import TextLicence
from ragrounds.evals.store.store import Store
from ragrounds.extensions.publishing.board import (
    BOARD_LINK,
    INDEX,
    Board,
    BoardRanking,
    attempt_links,
    attempt_pages,
    by_licence,
    comparison_options,
    comparison_page,
    withheld_words,
)
from ragrounds.extensions.publishing.bundle import SUFFIX
from ragrounds.extensions.publishing.derivation import make_bundle
from ragrounds.extensions.publishing.index_page import attempt_page, index_page, licence_lines
from ragrounds.extensions.publishing.leaderboard import Ranking, rank
from ragrounds.extensions.publishing.published_traces import TextMode, published_traces, shown_id, text_free
from ragrounds.extensions.studies.functions import list_studies, stored_table
from ragrounds.extensions.studies.paper_table import StudyTable
from ragrounds.models.prices import read_prices
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.report.page import report_page
from ragrounds.ui.tables.comparison_tables import printed_figures
from ragrounds.ui.text import number_of, size

_STAGE = ".ragrounds-new"


class PublishedSite(Result, frozen=True, kw_only=True):
    """Folder of pages, as it was published."""

    folder: Path
    index: Path
    """Path of the page to open."""
    rankings: tuple[str, ...]
    """Keys of the rankings, which are the names of their pages."""
    runs: int
    studies: int
    pages: int
    """Number of published files in the folder."""
    bytes: int
    left_out: tuple[tuple[str, str], ...]
    """Runs and studies that could not be published, each with the reason."""
    withheld: str
    """Datasets whose texts are not shown, with their licences; empty if all are shown."""

    def draw(self, console: Console) -> None:
        """Print the published files, and the texts that are not shown."""
        for line in self.lines():
            console.print(line, markup=False, soft_wrap=True)

    def facts(self) -> dict[str, object]:
        """Return the fields as plain values."""
        return {**asdict(self), "folder": str(self.folder), "index": str(self.index)}

    def lines(self) -> Iterator[str]:
        """Yield lines on the published files, and on the texts that are not shown and why."""
        ranked = f"{number_of(self.runs, 'run')} in {number_of(len(self.rankings), 'ranking')}"
        studies = f", {number_of(self.studies, 'study')}" if self.studies else ""
        yield f"{self.index}: {ranked}{studies}; {number_of(self.pages, 'file')}, {size(self.bytes)}"
        if self.withheld:
            yield (
                "Questions and answers are shown as digests where the licence does not allow publication: "
                f"{self.withheld}. --attempts all shows them."
            )
        for name, reason in self.left_out:
            yield f"Left out: {name}: {reason}"


class PublishArguments(Workspace, frozen=True):
    """Arguments of `publish`: runs, studies, and how much of their attempts is published."""

    folder: Annotated[str | Path, Arg("Created if it does not exist.", option="-")]
    runs: Annotated[
        RunsGiven,
        Arg("Ids, beginnings of ids, agents' texts, results or loaded runs; none: all runs of the store.", option="-"),
    ] = ()
    studies: Annotated[
        str | Sequence[str] | None,
        Arg(
            "A study: a file, or a name of `ragrounds study ls` (repeatable). [default: where no runs are named all "
            "that were carried out here, else none]",
            option="--study",
            many=True,
        ),
    ] = None
    attempts: Annotated[
        Literal["licensed", "all", "never"],
        Arg(
            "Show questions and answers if the licence on the benchmark's card allows it (else digests and scores), "
            "all of them, or no attempts.",
            metavar="licensed|all|never",
        ),
    ] = "licensed"
    bundle: Annotated[
        bool,
        Arg(
            "Also a bundle of each ranking: attempts that `ragrounds verify` derives every figure from. It "
            "holds replies in full."
        ),
    ] = False
    title: Annotated[str, Arg("Of the leaderboard.")] = "Leaderboard"
    names: arguments.Names = MappingProxyType({})
    seed: arguments.Seed = 0
    progress: arguments.Progressed = None


@takes(PublishArguments)
def publish(arguments: PublishArguments) -> PublishedSite:
    """Write a static leaderboard of runs and studies into a folder.

        rr.publish("site", rr.runs(), title="Retrieval in medicine")

    Runs are ranked against each other only if they answered the same questions. The folder's pages are replaced after
    all new pages are written, pages of an earlier publication are removed, and no other file is touched.

    Raises:
        UserError: an unknown run or study; nothing to publish; a folder with pages of other origin, or one that cannot
            be written.
    """
    folder = Path(arguments.folder)
    if arguments.bundle and arguments.attempts == "never":
        raise UserError("A bundle is made of attempts: --bundle does not go with --attempts never.")
    resolved_settings, requested = arguments.used_settings, run_names(arguments.runs)
    studies, left_out = _studies(arguments.studies, arguments.studies is None and not requested, resolved_settings)
    if not requested:
        with open_store(resolved_settings) as store:
            requested = [run.id for run in store.runs()]
    with (
        open_selected_runs(requested, resolved_settings) as (store, stored_runs),
        counted(arguments.progress) as report,
    ):
        stored_runs = list({run.id: run for run in stored_runs}.values())
        if not stored_runs and not studies:
            raise UserError(
                f"Nothing to publish: {store.location} has no run and no study. `ragrounds run` makes a run."
            )
        with _replaced_pages(folder) as site:
            names = names_of(store, stored_runs, arguments.names)
            ranked = rank(store, stored_runs, seed=arguments.seed, names=names, report=report)
            writer = _Writer(store, site, arguments.attempts, arguments.seed, report)
            board = Board(
                title=arguments.title,
                published_at=time.time(),
                mode=arguments.attempts,
                rankings=tuple(map(writer.ranking, ranked.rankings)),
                studies=tuple(studies),
                left_out=ranked.left_out,
            )
            writer.write(INDEX, index_page(board))
            for ranking in ranked.rankings if arguments.bundle else ():
                file, free = site / f"{ranking.key}{SUFFIX}", text_free(arguments.attempts, ranking.licences)
                # The order of the runs that were ranked, on which the pairs of the ranking depend.
                ranked_runs = [run for run in stored_runs if run in ranking.runs]
                prices = read_prices(resolved_settings.home)
                make_bundle(file, store, ranked_runs, names, free, arguments.seed, prices, printed_figures)
                writer.files[file.name] = file.stat().st_size
    return PublishedSite(
        folder=folder,
        index=folder / INDEX,
        rankings=tuple(ranking.key for ranking in ranked.rankings),
        runs=board.runs,
        studies=len(board.studies),
        pages=len(writer.files),
        bytes=sum(writer.files.values()),
        left_out=(*((", ".join(entry.runs), entry.why) for entry in ranked.left_out), *left_out),
        withheld=writer.withheld,
    )


@contextmanager
def _replaced_pages(folder: Path) -> Iterator[Path]:
    """Yield a folder for new files, and move these into `folder` at the end of the block; after an error none is moved.

    The index page is moved last, so that each of its links leads to a page at every moment.

    Raises:
        UserError: the folder has pages that were not published, or cannot be written.
    """
    existing = (
        {file.name for file in (*folder.glob("*.html"), *folder.glob(f"*{SUFFIX}"))} if folder.is_dir() else set()
    )
    marks = b'name="generator" content="ragrounds', b'{"_type":"https://in-toto.io/'
    if foreign := [name for name in sorted(existing) if not _starts_with_any(folder / name, marks)]:
        raise UserError(
            f"{folder} has files that are not from `ragrounds publish` ({foreign[0]}). Give another folder."
        )
    new, stage = not folder.exists(), folder / _STAGE
    make_folder(folder)
    try:
        shutil.rmtree(stage, ignore_errors=True)  # left by a process that was killed
        stage.mkdir()
        yield stage
        new_names = {file.name for file in stage.iterdir()}
        # The index page is moved last, so that none of its links leads to a missing page.
        for name in sorted(new_names, key=lambda name: name == INDEX):
            (stage / name).replace(folder / name)
        for name in existing - new_names:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write {folder}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        if new:
            with suppress(OSError):
                folder.rmdir()  # succeeds only if nothing was written into it


def _starts_with_any(path: Path, marks: Sequence[bytes]) -> bool:
    """Return True if the beginning of a file contains one of the marks."""
    with path.open("rb") as file:
        head = file.read(4096)
    return any(mark in head for mark in marks)


def _studies(
    names: str | Sequence[str] | None, default: bool, settings: Settings
) -> tuple[list[StudyTable], list[tuple[str, str]]]:
    """Return the tables of the studies to publish, and those that cannot be shown with the reason.

    Without names, these are the studies that were carried out here.

    Raises:
        UserError: a named study cannot be shown.
    """
    stored = [study.file or study.name for study in list_studies(settings=settings) if study.kept] if default else []
    tables, left_out = list[StudyTable](), list[tuple[str, str]]()
    for name in stored if names is None else texts(names):
        try:
            tables.append(stored_table(name, settings))
        except UserError as error:
            if names is not None:
                raise
            left_out.append((name, str(error)))
    return tables, left_out


class _Writer:
    """Writer of the pages of a site, one after the other."""

    def __init__(self, store: Store, site: Path, mode: TextMode, seed: int, tell: Progress) -> None:
        self._store, self._site, self._mode, self._seed, self._tell = store, site, mode, seed, tell
        self.files: dict[str, int] = {}
        """Size of each file of the site in bytes, by name."""
        self._done = 0
        self._withheld: dict[str, TextLicence] = {}

    @property
    def withheld(self) -> str:
        """Datasets whose texts are not shown, with their licences; empty if all are shown."""
        return by_licence(list(self._withheld.values()))

    def ranking(self, ranking: Ranking) -> BoardRanking:
        """Write the pages of a ranking."""
        free = text_free(self._mode, ranking.licences)
        page = comparison_page(ranking)
        attempts = self._attempts(ranking, page, free) if self._mode != "never" else {}
        if self._mode == "licensed":
            self._withheld |= {licence.dataset: licence for licence in ranking.licences if licence.dataset not in free}
        options = comparison_options(attempts, self._seed)
        parts = report_page(self._store, ranking.runs, ranking.comparison, options)
        self.write(page, parts)
        return BoardRanking(ranking=ranking, page=page, attempts=attempts, free=free)

    def _attempts(self, ranking: Ranking, comparison: str, free: frozenset[str]) -> dict[str, str]:
        """Write the pages of attempts, filling each with as many runs as fit; return the page of each run, by id."""
        names, by_id = agent_names(ranking.comparison), {run.id: run for run in ranking.runs}
        pages = attempt_pages(ranking)
        about = licence_lines(ranking.licences, free)
        about += [words] if (words := withheld_words(ranking.licences, free, self._mode)) else []
        page_links = attempt_links(pages)
        links = [BOARD_LINK, ("Comparison", comparison), *(page_links if len(page_links) > 1 else [])]
        questions, _ = self._store.questions(ranking.runs[0])
        order = {shown_id(question, free): position for position, question in enumerate(questions)}
        for page in dict.fromkeys(pages.values()):
            group, written_before = [run for run in pages if pages[run] == page], self._done

            def report(done: int, before: int = written_before) -> None:
                """Report the attempts written on this page, added to those of earlier pages."""
                self._done = before + done
                self._tell("attempts", self._done)

            title = f"{ranking.benchmark}: attempts of {number_of(len(group), 'run')}"
            traces = published_traces(self._store, [by_id[id] for id in group], self._mode, free)
            named_runs = [(id, names[id]) for id in group]
            self.write(page, attempt_page(title, about, traces, order, named_runs, links, report))
        return pages

    def write(self, name: str, parts: Iterable[str]) -> None:
        """Write a file of the site."""
        with (self._site / name).open("wb") as file:
            for part in parts:
                file.write(part.encode("utf-8", "replace"))
            self.files[name] = file.tell()
        self._tell("pages", len(self.files))
