@echo off
rem The first answer on a bare machine: makes .venv, installs, starts the server (with the built-in demo model).
setlocal enabledelayedexpansion
cd /d "%~dp0"
if not exist .venv\Scripts\python.exe (
  py -3 -m venv .venv 2>nul || python -m venv .venv || goto :nopython
)
.venv\Scripts\python -c "import sys; sys.exit(sys.version_info < (3, 11))" || goto :nopython
set "what=."
set "launcher=server.py"
set "rest="
:next
if "%~1"=="" goto :go
if "%~1"=="--local-model" (
  set "what=.[local-model]"
  set "launcher=run_local_model.py"
) else (
  set "rest=!rest! %1"
)
shift
goto :next
:go
.venv\Scripts\python -m pip install --quiet --disable-pip-version-check -e "%what%" || exit /b 1
.venv\Scripts\python %launcher% %rest%
exit /b %errorlevel%
:nopython
echo Headrace needs Python 3.11 or newer; none was found.
exit /b 1
