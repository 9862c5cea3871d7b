"""What the model said -> what the user sees.

Pure: standard library only, no I/O; callers log what `warnings` says.
"""

from Middleware.cleaning.cleaner import ResponseCleaner
from Middleware.cleaning.rules.inline_xml import strip_inline_xml_tags

__all__ = ["ResponseCleaner", "strip_inline_xml_tags"]
