"""The result of a benchmark's audit as lines of text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from ragrounds.evals.benchmarks.audit import Audit, ReadForm
from ragrounds.ui.text import number_of


def audit_lines(audited: Audit) -> Iterator[str]:
    """Yield the duplicates, the distribution of right letters, the lengths, and the overlap with a corpus."""
    yield f"{audited.benchmark}: {number_of(audited.questions, 'question')}"
    groups = Counter(" and ".join(twins.groups) for twins in audited.duplicates)
    yield f"questions that occur more than once: {len(audited.duplicates):,}"
    for group, count in groups.most_common(10):
        yield f"  {count:4,} in {group}"
    conflicting = sum(twins.golds_differ for twins in audited.duplicates)
    yield f"  {conflicting:4,} of them with different right answers"
    for options in audited.options:
        total = sum(options.letters.values()) or 1
        shares = ", ".join(f"{letter} {100 * count / total:.0f} %" for letter, count in options.letters.items())
        yield f"{options.dataset}: right letters {shares}; the longest is right in {100 * options.longest:.0f} %"
    misread = defaultdict[str, list[ReadForm]](list)
    for form in audited.replies:
        if form.read < form.of:
            misread[form.example].append(form)
    for example, forms in misread.items():
        read, reply_count = sum(form.read for form in forms), sum(form.of for form in forms)
        datasets = ", ".join(form.dataset for form in forms)
        yield f"of {reply_count:,} replies like {example!r} {read:,} are read as they are meant ({datasets})"
    if audited.replies and not misread:
        reply_count = sum(form.of for form in audited.replies)
        yield f"self-test of the answer reader: {reply_count:,} of {reply_count:,}"
    if audited.corpus is not None:
        corpus = audited.corpus
        sources = (
            f"has the sources of {len(corpus.sources):,} of "
            f"{number_of(len(corpus.sources) + len(corpus.without_source), 'question')} that name them"
            if corpus.sources or corpus.without_source
            else "no question names its source documents"
        )
        copies = f"; has copies of {number_of(len(corpus.copies), 'question')}" if corpus.copies else ""
        yield f"corpus of {number_of(corpus.documents, 'document')}: {sources}{copies}"
