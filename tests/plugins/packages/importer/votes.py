"""Import form ``votes``: a JSON Lines file of a voting tool, with `case` and `winner`."""

from ragrounds.extend import BadRow, ImportedRow, Importer, read_records


def rows(file):
    for one in read_records(file.path):
        if isinstance(one, BadRow):
            yield one
        else:
            place, record = one
            yield ImportedRow(place=place, agent="vote", id=record["case"], answer=record["winner"])


VOTES = Importer(
    name="votes",
    summary="a voting tool's file",
    recognises=lambda file: {"case", "winner"} <= set(file.first),
    rows=rows,
)
