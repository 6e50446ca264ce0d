"""Lineup of an arena: the systems, the questions that all of them answered, the answers, and the axes.

Nothing is generated: answers come from stored runs or from the benchmark. Axes are data: MRAG-Bench's four are in
``axes.toml`` next to this file, custom ones in a file of the same form.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError, unknown
from ragrounds.base.files import toml_record
from ragrounds.base.records import Gold, Question, Run, blank
from ragrounds.evals.scorers.answer_status import answer_text
from ragrounds.evals.store.arenas import AnswerPart, Arena, Axis, Contestant
from ragrounds.evals.store.store import Store

REFERENCE = "reference"
"""The name of the benchmark's own answers as a system."""
_MARKER = re.compile(r"^\s*(?:[#*]+\s*)?(?:Answer|答案|回答)\s*[:：]\s*\**\s*$", re.MULTILINE | re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


class _AxisEntry(Struct, forbid_unknown_fields=True):
    en: str
    zh: str = ""
    source: str = ""


def load_axes(names: Sequence[str] = (), file: Path | None = None) -> tuple[Axis, ...]:
    """Return the axes `names` in this order, by default all: MRAG-Bench's four, or those of the user's TOML file, which
    has one table an axis, ``[name]`` with ``en`` and perhaps ``zh``.

    Raises:
        UserError: no such axis, or a file of another form.
    """
    if file is None:
        axes = _read(files(__package__).joinpath("axes.toml").read_text(encoding="utf-8"), "axes.toml")
    else:
        try:
            axes = _read(file.read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"Cannot read the axes in {file}: {error}.") from error
    for name in names:
        if name not in axes:
            raise unknown("axis", name, axes, "ragrounds arena --help")
    return tuple(Axis(name, axes[name].en, axes[name].zh) for name in dict.fromkeys(names or axes))


def _read(text: str, source: str) -> Mapping[str, _AxisEntry]:
    hint = '. Expected one table an axis: [name] with en = "what it means".'
    axes = toml_record(text, dict[str, _AxisEntry], source, hint)
    if not axes:
        raise UserError(f"{source} has no axes.")
    for name, entry in axes.items():
        if not _NAME.fullmatch(name) or not entry.en.strip():
            raise UserError(f"{source}: the axis {name!r} needs a name of letters, digits, - and _, and a text `en`.")
    return axes


class Lineup(Struct, frozen=True, kw_only=True):
    """Contestants of an arena, the questions that they share, and their answers."""

    systems: tuple[Contestant, ...]
    questions: tuple[Question, ...]
    answers: tuple[dict[str, str], ...]
    """For each system: question id → text; empty if the system gave none (an empty answer loses to any other)."""
    golds: dict[str, Gold]
    left_out: int = 0
    """Questions that some system has not been asked yet."""
    benchmark: str = ""

    @property
    def version(self) -> str:
        """Hash of the questions and the answers (SHA-256, hexadecimal)."""
        digest = hashlib.sha256()
        for question in self.questions:
            texts = [answers[question.id] for answers in self.answers]
            digest.update(msgspec.json.encode([question.id, question.text, question.language, texts]) + b"\n")
        return digest.hexdigest()

    @property
    def empty(self) -> tuple[int, ...]:
        """For each system the number of questions without an answer."""
        return tuple(sum(blank(text) for text in answers.values()) for answers in self.answers)


def lineup_of(store: Store, arena: Arena) -> Lineup | None:
    """Return the lineup of a stored arena; ``None`` if its runs have other answers now than when it was played.

    Raises:
        UserError: as :func:`gather_lineup`.
    """
    runs = [system.run for system in arena.systems if system.run]
    has_reference = any(system.name == REFERENCE and not system.run for system in arena.systems)
    lineup = gather_lineup(store, runs, reference=has_reference, epoch=arena.epoch, part=arena.part)
    return lineup if lineup.version == arena.questions else None


def gather_lineup(
    store: Store, references: Sequence[str], *, reference: bool = False, epoch: int = 0, part: AnswerPart = "whole"
) -> Lineup:
    """Gather the lineup of the runs `references`. `reference` adds the benchmark's own answers as a system.

    Raises:
        UserError: fewer than two systems, the same run twice, questions that differ, or none of them long.
    """
    runs = store.select_runs(references)
    for run in runs:
        if sum(other.id == run.id for other in runs) > 1:
            raise UserError(f"The run {run.id} is given twice. A system cannot play against itself.")
    if len(runs) + reference < 2:
        raise UserError(
            f"An arena needs two systems or more; {len(runs) + reference} was given. See `ragrounds runs ls`."
        )
    questions, golds = _shared_questions(store, runs)
    attempts = [
        {attempt.question_id: attempt for attempt in store.attempts(run) if attempt.epoch == epoch} for run in runs
    ]
    ready = [
        question
        for question in questions
        if all(question.id in answered and answered[question.id].status != "not_run" for answered in attempts)
    ]
    if not ready:
        raise UserError(
            f"No question of {', '.join(run.id for run in runs)} is answered by all of them (epoch {epoch})."
        )
    answers = [
        {question.id: answer_text(answered[question.id], question) for question in ready} for answered in attempts
    ]
    if part != "whole":
        answers = [{id: _MARKER.split(text)[-1].strip() for id, text in texts.items()} for texts in answers]
    systems = []
    for run in runs:
        models: Mapping[str, str] = run.identity.get("models") or {}
        is_shared = run.agent == REFERENCE or sum(candidate.agent == run.agent for candidate in runs) > 1
        name = run.id if is_shared else run.agent
        systems.append(Contestant(name=name, run=run.id, model=str(models.get("model", ""))))
    if reference:
        ready = [question for question in ready if golds[question.id].answer.strip()]
        if not ready:
            raise UserError("The benchmark has no reference answers: leave --reference out.")
        systems.append(Contestant(name=REFERENCE))
        answers.append({question.id: golds[question.id].answer for question in ready})
    ready_ids = {question.id for question in ready}
    return Lineup(
        systems=tuple(systems),
        questions=tuple(ready),
        answers=tuple({id: text for id, text in texts.items() if id in ready_ids} for texts in answers),
        golds={id: gold for id, gold in golds.items() if id in ready_ids},
        left_out=len(questions) - len(ready),
        benchmark=", ".join(dict.fromkeys(run.benchmark for run in runs)),
    )


class RenamedArena(Arena, frozen=True, kw_only=True):
    """An arena whose systems are shown by other names; it is still the arena that was played."""

    played: Arena

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the arena that was played. Names are not part of it."""
        return self.played.fingerprint


def renamed(arena: Arena, names: Mapping[str, str]) -> RenamedArena:
    """Return an arena whose systems are shown by `names`.

    Args:
        arena: the arena that was played.
        names: run id → name. The run id is appended to names that several systems share.
    """
    requested_names = [names.get(system.run) or system.name for system in arena.systems]
    systems = tuple(
        replace(system, name=f"{name} ({system.run})" if system.run and requested_names.count(name) > 1 else name)
        for system, name in zip(arena.systems, requested_names, strict=True)
    )
    settings = {field: getattr(arena, field) for field in Arena.__struct_fields__}
    return RenamedArena(**settings | {"systems": systems}, played=arena)


def _shared_questions(store: Store, runs: Sequence[Run]) -> tuple[list[Question], dict[str, Gold]]:
    """Return the long-form questions that all runs share, in the first run's order, and their golds."""
    sets = [store.questions(run) for run in runs]
    if not sets:
        raise UserError("An arena needs one or more stored runs in addition to the reference answers.")
    shared, golds = sets[0]
    for run, (run_questions, _) in zip(runs[1:], sets[1:], strict=True):
        texts = {question.id: question.text for question in run_questions}
        differing = next((q.id for q in shared if q.id in texts and texts[q.id] != q.text), None)
        if differing is not None:
            raise UserError(
                f"{runs[0].id} and {run.id} answered different questions under the id {differing!r}: they cannot meet."
            )
        shared = [question for question in shared if question.id in texts]
    if not shared:
        raise UserError(f"The runs {', '.join(run.id for run in runs)} share no question.")
    long = [question for question in shared if question.kind == "long"]
    if not long:
        raise UserError(
            "The arena compares long answers, and these runs have only questions of other kinds. For multiple choice "
            "use `ragrounds compare`."
        )
    return long, golds
