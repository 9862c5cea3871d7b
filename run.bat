@echo off
rem The first answer on a bare machine: makes .venv, installs once, starts the server (with the built-in demo model).
rem   run --local-model        a real 135M model beside it, no LLM server needed
rem   run --User chat ...      any argument of server.py; paths count from the folder that you are in
rem Arguments are gathered outside of ( ) and without quotes around them: "C:\Program Files (x86)\a & b" arrives whole.
setlocal
set "here=%~dp0"
set "python=%here%.venv\Scripts\python.exe"
set "launcher=server.py"
set "stamp=run"
set rest=
:next
if [%1]==[] goto :gathered
if "%~1"=="--local-model" goto :local
if "%~1"=="--help" goto :help
if "%~1"=="-h" goto :help
set rest=%rest% %1
shift
goto :next
:local
set "launcher=run_local_model.py"
set "stamp=local-model"
shift
goto :next
:gathered
if exist "%python%" if exist "%here%.venv\.installed-run.cfg" goto :made
py -3 --version >nul 2>nul && goto :launcher
python "%here%deploy\make_venv.py" || goto :nopython
goto :made
:launcher
py -3 "%here%deploy\make_venv.py" || goto :nopython
:made
fc /b "%here%setup.cfg" "%here%.venv\.installed-run.cfg" >nul 2>nul || "%python%" "%here%deploy\install.py" run .installed-run.cfg || exit /b 1
if "%stamp%"=="run" goto :start
fc /b "%here%setup.cfg" "%here%.venv\.installed-%stamp%.cfg" >nul 2>nul || "%python%" "%here%deploy\install.py" %stamp% .installed-%stamp%.cfg || exit /b 1
:start
"%python%" "%here%%launcher%" %rest%
exit /b %errorlevel%
:help
rem before anything is installed
echo usage: run [--local-model] [ARGUMENT ...]
echo   --local-model   Start a small real model beside the server. The first start downloads about 130 MB.
if exist "%python%" if exist "%here%.venv\.installed-run.cfg" goto :allhelp
echo All other arguments are passed on to the server; docs\server.md and docs\commands.md list them.
echo After the first start, run --help lists them as well.
exit /b 0
:allhelp
"%python%" "%here%server.py" --help
exit /b %errorlevel%
:nopython
echo Headrace needs Python 3.11 or newer.
exit /b 1
