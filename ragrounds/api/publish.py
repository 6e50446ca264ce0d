"""A static leaderboard of many runs and studies: a folder of pages that any web server, or none, can show."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict
from rich.console import Console

from ragrounds.api import arguments
from ragrounds.api.aliases import names_of
from ragrounds.api.arguments import Arg, takes
from ragrounds.api.progress import counted
from ragrounds.api.results import Result
from ragrounds.api.site_folder import SiteFolder, site_folder, total_bytes
from ragrounds.api.study import StudyResult, list_studies, show_study
from ragrounds.api.workspace import (
    Progress,
    RunsGiven,
    chosen_settings,
    open_store,
    opened_runs,
    run_names,
    texts,
)
from ragrounds.errors import UserError
from ragrounds.evals.benchmarks.cards import TextLicence
from ragrounds.evals.compare.leaderboard import LeftOutRuns, Ranking, rank
from ragrounds.evals.exchange.published_traces import TextMode, attempts_digest, published_traces, shown_id, text_free
from ragrounds.evals.store.store import Store
from ragrounds.records import Run
from ragrounds.redaction import Redactor
from ragrounds.settings import Settings
from ragrounds.text import file_name
from ragrounds.ui.comparison_tables import agent_names
from ragrounds.ui.leaderboard.board import (
    DATA,
    Board,
    BoardRanking,
    BoardStudy,
    attempt_links,
    board_json,
    by_licence,
    withheld_words,
)
from ragrounds.ui.leaderboard.index_page import attempt_page, index_page, licence_lines
from ragrounds.ui.report.html_tables import page_script
from ragrounds.ui.report.page import page_style, report_page
from ragrounds.ui.report.study_page import study_page
from ragrounds.ui.text import number_of, size
from ragrounds.version import __version__

INDEX = "index.html"
_PAGE = 20_000
"""Attempts of one page, about."""
_TO_BOARD = ("Leaderboard", INDEX)


class PublishedSite(Result, frozen=True, kw_only=True):
    """A folder of pages, as it was published."""

    folder: Path
    index: Path
    """The page to open."""
    rankings: tuple[str, ...]
    """The keys of the rankings, which are the names of their pages."""
    runs: int
    studies: int
    pages: int
    """Files in the folder that are ours."""
    kept: int
    """Of these: as they were, because nothing that they show has changed."""
    bytes: int
    left_out: tuple[tuple[str, str], ...]
    """Runs and studies that could not be published, each with the reason."""
    withheld: str
    """Datasets whose texts are not shown, with their licences; empty: none."""

    def draw(self, console: Console) -> None:
        """Print what is where, and what is not shown."""
        for line in self.lines():
            console.print(line, markup=False, soft_wrap=True)

    def brief(self) -> str:
        """The page and what it shows."""
        return next(iter(self.lines()))

    def facts(self) -> dict[str, object]:
        """The same as plain values."""
        return {**asdict(self), "folder": str(self.folder), "index": str(self.index)}

    def lines(self) -> Iterator[str]:
        """What is where, what is not shown, and why."""
        ranked = f"{number_of(self.runs, 'run')} in {number_of(len(self.rankings), 'ranking')}"
        same = f", {self.kept:,} of them as before" if self.kept else ""
        studies = f", {number_of(self.studies, 'study')}" if self.studies else ""
        yield f"{self.index}: {ranked}{studies}; {number_of(self.pages, 'file')}{same}, {size(self.bytes)}"
        if self.withheld:
            yield (
                f"Questions and answers are digests where the licence does not let anybody give them on: "
                f"{self.withheld}. --attempts all shows them."
            )
        for name, why in self.left_out:
            yield f"Left out: {name}: {why}"


class _Published(Struct, frozen=True):
    """What may be given without its name."""

    folder: Annotated[str | Path, Arg("Made where there is none.", option="-")]
    runs: Annotated[
        RunsGiven,
        Arg("Ids, beginnings of ids, agents' texts, results or loaded runs; none: all runs of the store.", option="-"),
    ] = ()


class PublishArguments(_Published, frozen=True, kw_only=True):
    """What is published, and how much of it."""

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
            "Show questions and answers where the licence of the benchmark's card lets anybody give them on (of others "
            "digests and scores), all of them, or no attempts.",
            metavar="licensed|all|never",
        ),
    ] = "licensed"
    title: Annotated[str, Arg("Of the leaderboard.")] = "Leaderboard"
    names: arguments.Names = MappingProxyType({})
    seed: arguments.Seed = 0
    force: Annotated[bool, Arg("Write among files of others, and over those that were changed.")] = False
    progress: arguments.Progressed = None
    home: arguments.Home = None
    settings: arguments.OwnSettings = None


@takes(PublishArguments)
def publish(given: PublishArguments) -> PublishedSite:
    """Write a static leaderboard of runs and studies into a folder.

        rr.publish("site", rr.runs(), title="Retrieval in medicine")

    Runs are ranked against each other only where they answered the same questions. The folder is replaced when all of
    it is written; only what an earlier call made is replaced or removed.

    Raises:
        UserError: an unknown run or study; nothing to publish; a folder of somebody else, or one that cannot be
            written.
    """
    folder, seed = Path(given.folder), given.seed
    chosen, wanted = chosen_settings(given.settings, given.home), run_names(given.runs)
    known = _studies(given.studies, not wanted, chosen)
    with opened_runs(wanted or _every_run(chosen), chosen) as (store, found), counted(given.progress) as tell:
        found = list({run.id: run for run in found}.values())
        if not found and not known.made:
            raise UserError(f"Nothing to publish: {store.place} has no run and no study. `ragrounds run` makes a run.")
        with site_folder(folder, (DATA, INDEX), force=given.force) as site:
            ranked = rank(store, found, seed=seed, names=names_of(store, found, given.names), report=tell)
            writer = _Writer(store, site, given.attempts, seed, tell)
            rankings = tuple(writer.ranking(one) for one in ranked.rankings)
            shown = tuple(writer.study(one, updated) for one, updated in known.made)
            writer.board(given.title, rankings, shown, ranked.left_out)
    left = [*((", ".join(one.runs), one.why) for one in ranked.left_out), *known.left_out]
    return PublishedSite(
        folder=folder,
        index=folder / INDEX,
        rankings=tuple(one.key for one in ranked.rankings),
        runs=sum(len(one.runs) for one in ranked.rankings),
        studies=len(shown),
        pages=len(site.files),
        kept=writer.kept,
        bytes=total_bytes(site.files.values()),
        left_out=tuple(left),
        withheld=writer.withheld,
    )


def _every_run(settings: Settings) -> list[str]:
    with open_store(settings) as store:
        return [run.id for run in store.runs()]


def _packed(attempts: Mapping[str, int]) -> Iterator[list[str]]:
    """Runs, as many together as make a page of attempts.

    Args:
        attempts: run id → how many it has.
    """
    group: list[str] = []
    size = 0
    for run, count in attempts.items():
        if group and size + count > _PAGE:
            yield group
            group, size = [], 0
        group.append(run)
        size += count
    if group:
        yield group


def _attempts_name(key: str, number: int) -> str:
    return f"{key}-attempts{f'-{number + 1}' if number else ''}.html"


class _KnownStudies(Struct, frozen=True):
    made: tuple[tuple[StudyResult, float | None], ...]
    """Each with the time of its last change."""
    left_out: tuple[tuple[str, str], ...]


def _studies(given: str | Sequence[str] | None, default: bool, settings: Settings) -> _KnownStudies:
    """The studies that are named, or by default those that were carried out here.

    Raises:
        UserError: one that is named cannot be shown.
    """
    if given is None and not default:
        return _KnownStudies((), ())
    listed = {one.file or one.name: one for one in list_studies(settings=settings)}
    wanted = texts(given) if given is not None else [name for name, one in listed.items() if one.kept]
    made: list[tuple[StudyResult, float | None]] = []
    left: list[tuple[str, str]] = []
    for name in wanted:
        try:
            found = show_study(name, settings=settings)
        except UserError as error:
            if given is not None:
                raise
            left.append((name, str(error)))
            continue
        one = listed.get(name) or listed.get(str(Path(name).expanduser().resolve()))
        made.append((found, one.updated if one else None))
    return _KnownStudies(tuple(made), tuple(left))


class _Writer:
    """Writes the pages of a site, one after the other."""

    def __init__(self, store: Store, site: SiteFolder, mode: TextMode, seed: int, tell: Progress) -> None:
        self._store, self._site, self._mode, self._seed, self._tell = store, site, mode, seed, tell
        self._pages = self._done = 0
        self.kept = 0
        """Pages that are as they were."""
        self._withheld: dict[str, TextLicence] = {}

    @property
    def withheld(self) -> str:
        """Datasets whose texts are not shown, with their licences; empty: none."""
        return by_licence(list(self._withheld.values()))

    def ranking(self, ranking: Ranking) -> BoardRanking:
        """The pages of a ranking."""
        free = text_free(self._mode, ranking.licences)
        page = f"{ranking.key}.html"
        attempts = self._attempts(ranking, page, free) if self._mode != "never" else {}
        if self._mode == "licensed":
            self._withheld |= {one.dataset: one for one in ranking.licences if one.dataset not in free}
        links = [_TO_BOARD, *attempt_links(attempts)]
        parts = report_page(self._store, ranking.runs, ranking.comparison, attempts=False, seed=self._seed, links=links)
        self._write(page, parts)
        return BoardRanking(ranking=ranking, page=page, attempts=attempts, free=free)

    def _attempts(self, ranking: Ranking, comparison: str, free: frozenset[str]) -> dict[str, str]:
        """The pages of attempts, as many runs in each as fit; run id → its page. What is as it was is kept."""
        names = agent_names(ranking.comparison)
        groups = list(_packed({row.run: sum(row.statuses.values()) for row in ranking.comparison.rows}))
        pages = {run: _attempts_name(ranking.key, number) for number, group in enumerate(groups) for run in group}
        about = licence_lines(ranking.licences, free)
        about += [words] if (words := withheld_words(ranking.licences, free, self._mode)) else []
        links = [_TO_BOARD, ("Comparison", comparison), *(attempt_links(pages) if len(groups) > 1 else [])]
        questions, _ = self._store.questions(ranking.runs[0])
        order = {shown_id(question, free): place for place, question in enumerate(questions)}
        by_id = {run.id: run for run in ranking.runs}
        for number, group in enumerate(groups):
            name, runs = _attempts_name(ranking.key, number), [by_id[id] for id in group]
            shown = [(run.id, names[run.id]) for run in runs]
            key = self._key(runs, (shown, about, links, sorted(free)))
            if self._site.keep(name, key):
                self.kept += 1
                continue
            self._write(
                name,
                attempt_page(
                    f"{ranking.benchmark}: attempts of {number_of(len(runs), 'run')}",
                    about,
                    published_traces(self._store, runs, self._mode, free),
                    order,
                    shown,
                    links,
                    self._counted_attempts(),
                ),
                key,
            )
        return pages

    def _counted_attempts(self) -> Callable[[int], None]:
        """Tells of the attempts of one page, after those of the pages before."""
        before = self._done

        def tell(done: int) -> None:
            """So many of this page are written."""
            self._done = before + done
            self._tell("attempts", self._done)

        return tell

    def _key(self, runs: Sequence[Run], shown: object) -> str:
        """What a page of attempts is made of, as a digest: attempts and scores, what is said of them, this version."""
        made_by = (__version__, page_style(), page_script(attempts=True), self._mode)
        parts = [made_by, shown, [(run.id, run.questions, attempts_digest(self._store, run)) for run in runs]]
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()

    def study(self, study: StudyResult, updated: float | None) -> BoardStudy:
        """The page of a study."""
        runs = [run for run in self._store.runs() if run.id in study.ids and self._store.done(run)]
        base = f"study-{file_name(study.table.study, 60, '-', '-')}".lower()
        number, name = 1, f"{base}.html"
        while name in self._site.files:
            number += 1
            name = f"{base}-{number}.html"
        self._write(name, [study_page(study.table, study.findings, runs, study.study.picture, [_TO_BOARD])])
        return BoardStudy(table=study.table, page=name, updated=updated)

    def board(
        self,
        title: str,
        rankings: tuple[BoardRanking, ...],
        studies: tuple[BoardStudy, ...],
        left_out: tuple[LeftOutRuns, ...],
    ) -> None:
        """The way in, and the same as data."""
        board = Board(
            title=title, made=time.time(), mode=self._mode, rankings=rankings, studies=studies, left_out=left_out
        )
        self._write(DATA, [Redactor()(board_json(board).decode())])
        self._write(INDEX, index_page(board))

    def _write(self, name: str, parts: Iterable[str], key: str = "") -> None:
        with self._site.file(name, key) as file:
            for part in parts:
                file.write(part.encode("utf-8", "replace"))
        self._pages += 1
        self._tell("pages", self._pages)
