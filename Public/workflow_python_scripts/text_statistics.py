"""Counts words and sentences of a text, for a PythonModule node.

    { "type": "PythonModule", "module_path": "Public/workflow_python_scripts/text_statistics.py",
      "args": ["{agent1Output}"], "kwargs": { "words_per_minute": 200 } }

Every argument arrives as text, unless the node says "argTypes": "native".
"""

import re

from Middleware.workflows.tools.dynamic_module_loader import DynamicModuleError


def Invoke(*args, **kwargs):
    """`5 words, 2 sentences, about 1 minute to read`."""
    if not args:
        raise DynamicModuleError("there is no text to count", module_name="text statistics")
    words = len(args[0].split())
    sentences = len(re.findall(r"[^.!?]*\w[^.!?]*(?:[.!?]+|$)", args[0]))
    minutes = max(1, round(words / float(kwargs.get("words_per_minute", 200))))
    return ", ".join(
        (
            f"{words} word{'' if words == 1 else 's'}",
            f"{sentences} sentence{'' if sentences == 1 else 's'}",
            f"about {minutes} minute{'' if minutes == 1 else 's'} to read",
        )
    )
