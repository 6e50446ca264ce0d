"""Tables and the sentences next to them, as text, Markdown, LaTeX, CSV and HTML."""
