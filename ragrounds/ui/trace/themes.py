"""Light and dark theme. Text has a contrast of at least 4.5 to 1.

The contrast is that of WCAG 2.2 (success criterion 1.4.3); a test measures it for everything on every screen.
"""

from __future__ import annotations

from textual.theme import Theme

DARK, LIGHT = "ragrounds-dark", "ragrounds-light"

THEMES = (
    Theme(
        name=DARK,
        dark=True,
        primary="#4aa3ff",
        secondary="#7fb4ff",
        accent="#ffb454",
        success="#6cc36c",
        warning="#f0b440",
        error="#ff7b86",
        foreground="#e4e6eb",
        background="#111318",
        surface="#191c23",
        panel="#242833",
        variables={
            "quiet": "#a3a9b5",
            "text-muted": "#a3a9b5",
            "text-disabled": "#a3a9b5",
            "cursor-line": "#193b5e",
            "cursor-resting": "#2b303c",
            "text-primary": "#7cbcff",
            "text-secondary": "#9cc4ff",
            "text-accent": "#ffc578",
            "text-success": "#83d683",
            "text-warning": "#f7c860",
            "text-error": "#ff9aa2",
            "block-cursor-background": "#193b5e",
            "block-cursor-foreground": "#ffffff",
            "block-cursor-text-style": "bold",
            "input-selection-background": "#2f6db0",
            "screen-selection-background": "#2f6db0",
            "border": "#6f7888",
            "border-blurred": "#4a5160",
        },
    ),
    Theme(
        name=LIGHT,
        dark=False,
        primary="#0b5cad",
        secondary="#2f4f9e",
        accent="#a04a00",
        success="#1c6b2a",
        warning="#7a5200",
        error="#b3202e",
        foreground="#1b1e24",
        background="#fbfbfa",
        surface="#f2f2ef",
        panel="#e4e4df",
        variables={
            "quiet": "#555b66",
            "text-muted": "#555b66",
            "text-disabled": "#555b66",
            "cursor-line": "#cfe2f7",
            "cursor-resting": "#e6e8ea",
            "text-primary": "#0b4f96",
            "text-secondary": "#2d4a94",
            "text-accent": "#8a3f00",
            "text-success": "#14591f",
            "text-warning": "#694600",
            "text-error": "#a01826",
            "block-cursor-background": "#cfe2f7",
            "block-cursor-foreground": "#10141a",
            "block-cursor-text-style": "bold",
            "input-selection-background": "#a9cdf2",
            "screen-selection-background": "#a9cdf2",
            "border": "#7b8290",
            "border-blurred": "#b9bec7",
        },
    ),
)
