"""One file a family: the authors' own format in, questions and golds out. They are found by scanning this folder."""
