"""Every table of plug-ins is full before a test is collected: a test asks the same of them alone as among all."""

from __future__ import annotations

from Middleware.api import commands
from Middleware.api.api_server import load_front_ends
from Middleware.cleaning import rules
from Middleware.common.registry import load_all
from Middleware.llmapis.handlers import impl as backends
from Middleware.workflows.handlers import impl as nodes

load_front_ends()
for package in (commands, rules, backends, nodes):
    load_all(package)
