"""The scripts by which Bash, zsh and fish complete `ragrounds`, and where each shell looks for them.

A script hands the line to :mod:`ragrounds.cli.completion` and offers what that answers; where it answers nothing, the
shell offers files. Bash gets words with backslashes before what it would interpret (``vanilla_rag\\[top_k=8\\]``), and
of a word with a ``:`` or ``=`` only what follows, because it replaces only that; zsh and fish quote by themselves.
"""

from __future__ import annotations

import os
from pathlib import Path

from ragrounds.errors import UserError

BASH = r"""
_ragrounds_completion() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(_RAGROUNDS_COMPLETE=complete_bash COMP_LINE="${COMP_LINE:0:$COMP_POINT}" \
        COMP_WORDBREAKS="$COMP_WORDBREAKS" "$1" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:/,] ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}
complete -o default -F _ragrounds_completion ragrounds
"""
ZSH = r"""#compdef ragrounds
_ragrounds() {
    local -a before values shown begun begun_shown
    local value about
    before=("${(@Q)words[1,CURRENT-1]}")
    while IFS=$'\t' read -r value about; do
        if [[ $value == *[=:/,] ]]; then
            begun+=("$value")
            begun_shown+=("$value${about:+  -- $about}")
        else
            values+=("$value")
            shown+=("$value${about:+  -- $about}")
        fi
    done < <(_RAGROUNDS_COMPLETE=complete_zsh _RAGROUNDS_WORDS="${(pj:\x1f:)before}" \
        _RAGROUNDS_CURRENT="$PREFIX" "${before[1]}" 2>/dev/null)
    if (( $#values + $#begun == 0 )); then
        _files
        return
    fi
    (( $#values )) && compadd -V ragrounds -l -d shown -a values
    (( $#begun )) && compadd -V ragrounds -S '' -l -d begun_shown -a begun
}
if [[ $funcstack[1] == _ragrounds ]]; then
    _ragrounds "$@"
else
    compdef _ragrounds ragrounds
fi
"""
FISH = r"""
function __ragrounds_complete
    set -l words (commandline -opc)
    set -l before (string join \x1f -- $words)
    set -l current (commandline -ct)
    set -l found (env _RAGROUNDS_COMPLETE=complete_fish "_RAGROUNDS_WORDS=$before" "_RAGROUNDS_CURRENT=$current" \
        $words[1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path $current
    end
end
complete --command ragrounds --no-files --keep-order --arguments '(__ragrounds_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
_PLACES = {
    "bash": Path(".bash_completions") / "ragrounds.sh",
    "zsh": Path(".zfunc") / "_ragrounds",
    "fish": Path(".config") / "fish" / "completions" / "ragrounds.fish",
}
_LINES = {
    "bash": (".bashrc", "source '{place}'"),
    "zsh": (".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
}
"""What a shell's own file says, so that the script is found; fish looks in its place by itself."""


def shell_here() -> str:
    """The shell that this command was typed in.

    Raises:
        UserError: it is none of those that can complete.
    """
    try:
        import shellingham

        name = str(shellingham.detect_shell()[0])
    except (ImportError, OSError):  # shellingham says by an OSError that it cannot tell
        name = Path(os.environ.get("SHELL", "")).name
    if name not in SCRIPTS:
        raise UserError(f"{name or 'This shell'!r} cannot complete ragrounds. These can: {', '.join(SCRIPTS)}.")
    return name


def install(shell: str) -> Path:
    """Write the script where the shell looks for it; gives its path.

    Raises:
        UserError: it cannot be written.
    """
    place = Path.home() / _PLACES[shell]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(SCRIPTS[shell].strip() + "\n", encoding="utf-8")
        if shell in _LINES:
            name, text = _LINES[shell]
            _add_line(Path.home() / name, text.format(place=place))
    except OSError as error:
        raise UserError(f"Cannot write {error.filename}: {error.strerror}.") from error
    return place


def _add_line(file: Path, line: str) -> None:
    there = file.read_text(encoding="utf-8") if file.is_file() else ""
    if line not in there:
        file.write_text(f"{there.rstrip()}\n{line}\n".lstrip(), encoding="utf-8")
