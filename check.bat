@echo off
rem Everything that must hold before a change lands: format, lint, types, all tests, coverage.
setlocal
cd /d "%~dp0"
if not exist .venv\Scripts\python.exe (
  py -3 -m venv .venv 2>nul || python -m venv .venv || exit /b 1
)
.venv\Scripts\python -m pip install --quiet --disable-pip-version-check -e ".[test]" || exit /b 1
.venv\Scripts\ruff check . || exit /b 1
.venv\Scripts\ruff format --check . || exit /b 1
.venv\Scripts\mypy || exit /b 1
.venv\Scripts\python -m pytest -q -n 2 --dist loadscope --cov --cov-report=term:skip-covered --cov-fail-under=95
