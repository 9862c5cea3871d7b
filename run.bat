@echo off
rem The first answer on a bare machine: makes .venv, installs once, starts the server (with the built-in demo model).
rem   run --local-model        a real 135M model beside it, no LLM server needed
rem   run --User chat ...      any argument of server.py; paths count from the folder that you are in
rem Arguments are gathered outside of ( ) and without quotes around them: "C:\Program Files (x86)\a & b" arrives whole.
setlocal
set "here=%~dp0"
set "python=%here%.venv\Scripts\python.exe"
set "launcher=server.py"
set "extra="
set "stamp=run"
set rest=
:next
if "%~1"=="" goto :gathered
if "%~1"=="--local-model" goto :local
set rest=%rest% %1
shift
goto :next
:local
set "launcher=run_local_model.py"
set "extra=[local-model]"
set "stamp=local-model"
shift
goto :next
:gathered
if exist "%python%" goto :made
py -3 -m venv "%here%.venv" 2>nul || python -m venv "%here%.venv" || goto :nopython
:made
"%python%" -c "import sys; sys.exit(sys.version_info < (3, 11))" || goto :nopython
set "stamp=%here%.venv\.installed-%stamp%.cfg"
fc /b "%here%setup.cfg" "%stamp%" >nul 2>nul && goto :start
echo installing (once) ...
pushd "%here%"
"%python%" -m pip install --quiet --disable-pip-version-check -e ".%extra%" || exit /b 1
popd
copy /y "%here%setup.cfg" "%stamp%" >nul
:start
"%python%" "%here%%launcher%" %rest%
exit /b %errorlevel%
:nopython
echo Headrace needs Python 3.11 or newer; none was found. (Remove the folder .venv if an older Python made it.)
exit /b 1
