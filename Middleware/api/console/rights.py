"""Who may see the console, and do what there. Pure rules over header values.

Source: spec console.md 2.
"""

from __future__ import annotations

NEEDS = {
    "look": "this needs the right to look: a browser on this machine has it, --console-key gives it to"
    " others, --console view to everybody",
    "act": "this needs the right to act: a browser on this machine has it, --console-key gives it to others",
    "save": "this needs the right to save: start with --console edit",
}
"""Right -> what is said to one who has it not."""
