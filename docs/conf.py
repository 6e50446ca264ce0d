"""Sphinx's configuration of the site; `python docs/scripts/build_site.py` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "scripts")]

from ragrounds.ui.theme import palette  # noqa: E402
from ragrounds.version import __version__  # noqa: E402

project = "ragrounds"
version = release = __version__
html_title = f"ragrounds {__version__}"
language = "en"
root_doc = "index"
extensions = ["myst_parser", "site_extension", "site_navigation"]
source_suffix = {".md": "markdown"}
nitpicky = True

myst_enable_extensions = ["attrs_inline", "html_image"]
myst_heading_anchors = 4
"""Headings that have an anchor, by their depth; anchors are made as GitHub makes them."""

html_theme = "furo"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
templates_path = ["site/templates"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_use_index = False
html_baseurl = ""
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


def _colours(dark: bool) -> dict[str, str]:
    """Furo's names for the colours that all pages and pictures of ragrounds have."""
    ours = palette(dark)
    return {
        "color-brand-primary": ours["accent"],
        "color-brand-content": ours["accent"],
        "color-brand-visited": ours["accent"],
        "color-background-primary": ours["back"],
        "color-background-secondary": ours["soft"],
        "color-background-border": ours["line"],
        "color-foreground-primary": ours["ink"],
        "color-foreground-secondary": ours["dim"],
        "color-foreground-muted": ours["dim"],
        "color-inline-code-background": ours["soft"],
        "color-code-background": ours["soft"],
        "color-highlight-on-target": ours["mark"],
    }


html_theme_options = {
    "light_css_variables": _colours(dark=False),
    "dark_css_variables": _colours(dark=True),
    "top_of_page_buttons": [],
}
