"""A paper's profile in the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from ragrounds.agents.profile import Profile, Setting
from ragrounds.ui.text import safe


def print_profile(profile: Profile, console: Console, *, with_values: bool) -> None:
    """Print a profile: its paper and the graphs that it sets; with `with_values` also every value with its source."""
    console.print(Text(profile.name, style="bold"), Text(f"  {profile.summary}"), sep="\n")
    console.print(Text(f"  after {profile.paper}", style="dim"))
    if profile.code:
        console.print(Text(f"  code  {profile.code}", style="dim"))
    if not with_values:
        console.print(Text(f"  {', '.join(profile.graphs) or 'no agents'}\n", style="cyan"))
        return
    if profile.scorer:
        _print_settings("scorer", {"scorer": profile.scorer}, console)
    for graph, settings in profile.graphs.items():
        _print_settings(graph, settings, console)
    for family in profile.models:
        heading = f"models named {', '.join(family.names)}" if family.names else "any model"
        _print_settings(heading, {**family.sampling, **family.parameters}, console)
    for remark in profile.open:
        console.print(Text(f"  open: {safe(remark)}"))


def _print_settings(heading: str, settings: Mapping[str, Setting], console: Console) -> None:
    console.print(Text(f"  {heading}", style="cyan"))
    for key, setting in settings.items():
        value = str(setting.value).lower() if isinstance(setting.value, bool) else str(setting.value)
        console.print(Text.assemble(f"    {key}={safe(value)}", (f"  {safe(setting.source)}", "dim")))
