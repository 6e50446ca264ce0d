"""Benchmark ``flashcards``: a text file with a question a line, its right answer and two wrong ones, between tabs."""

from ragrounds.extend import BenchmarkCard, Family, Gold, Item, Question


def items(source):
    for number, line in enumerate(source.path.read_text(encoding="utf-8").splitlines()):
        text, right, *wrong = line.split("\t")
        options = dict(zip("ABC", sorted([right, *wrong]), strict=True))
        letter = next(letter for letter, option in options.items() if option == right)
        question = Question(id=f"flashcards/{number}", benchmark="flashcards", text=text, options=options)
        yield Item(question, Gold(question_id=question.id, answer=letter))


FAMILY = Family(
    name="flashcards",
    items=items,
    file="a text file",
    cards=(
        BenchmarkCard(
            name="flashcards",
            title="Flash cards",
            task="choice",
            source="one's own",
            license="CC0",
            headline=("strict",),
            columns=("robust",),
        ),
    ),
)
