@echo off
rem Everything that must hold before a change lands: format, lint, types, all tests, coverage.
rem   check             all of it
rem   check --fast      the quick half: ruff, mypy, the architecture test
rem   check --changed   ruff, mypy, and the tests of the files that differ from the last commit
rem   check PATH ...    the same for files or folders, of the code or of the tests; options of pytest may follow
setlocal
cd /d "%~dp0"
if exist .venv\Scripts\python.exe if exist .venv\.installed-test.cfg goto :made
py -3 --version >nul 2>nul && goto :launcher
python deploy\make_venv.py || exit /b 1
goto :made
:launcher
py -3 deploy\make_venv.py || exit /b 1
:made
fc /b setup.cfg .venv\.installed-test.cfg >nul 2>nul || .venv\Scripts\python deploy\install.py test .installed-test.cfg || exit /b 1
.venv\Scripts\ruff check . || exit /b 1
.venv\Scripts\ruff format --check . || exit /b 1
.venv\Scripts\mypy || exit /b 1
if "%~1"=="--fast" goto :fast
if not "%~1"=="" goto :paths
rem otherwise, where nothing keeps it, each server that a test starts would compile all of it
.venv\Scripts\python -m compileall -q Middleware server.py || exit /b 1
.venv\Scripts\python -m pytest -q -n 3 --dist loadscope --cov --cov-report=term:skip-covered --cov-fail-under=95
exit /b %errorlevel%
:fast
.venv\Scripts\python -m pytest -q tests/test_architecture.py
exit /b %errorlevel%
:paths
rem the limit of coverage is one of all tests together
.venv\Scripts\python tools\check_paths.py %*
exit /b %errorlevel%
