"""What leaves the terminal: copying, and the user's editor. Both get the text exactly as it was recorded."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType

if TYPE_CHECKING:
    from textual.screen import Screen

    _Base = Screen[None]
else:
    _Base = object


class Outside(_Base):
    """For screens with a detail pane."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy", id="copy", show=False),
        Binding("o", "editor", "Open in $EDITOR", id="editor", show=False),
    ]

    def text_outside(self) -> str:
        """The text of the detail pane, as it was recorded."""
        raise NotImplementedError

    def action_copy(self) -> None:
        """Copy what is selected with the mouse, else the whole detail."""
        text = self.get_selected_text() or self.text_outside()
        self.app.copy_to_clipboard(text)
        self.app.notify(f"Copied {len(text):,} characters.", markup=False)

    def action_editor(self) -> None:
        """Open a copy of the detail in the user's editor."""
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if not editor:
            self.app.notify("Set EDITOR to the editor of your choice, such as EDITOR=vim.", markup=False)
            return
        with tempfile.TemporaryDirectory(prefix="ragrounds-") as folder:
            file = Path(folder) / "trace.md"
            file.write_text(self.text_outside(), encoding="utf-8", errors="surrogatepass")
            try:
                with self.app.suspend():
                    # The user's own command, from the user's own environment.
                    subprocess.run([*shlex.split(editor), str(file)], check=False)  # noqa: S603
            except (SuspendNotSupported, OSError, ValueError) as error:
                self.app.notify(f"Cannot open {editor!r}: {error}", markup=False, severity="error")
