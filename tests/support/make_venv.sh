#!/bin/sh
# make_venv.sh PYTHON FOLDER: a virtual environment, also where Debian keeps `venv` in a package of its own.
set -eu
python=$1
venv=$2

"$python" -m venv "$venv" >/dev/null 2>&1 && exit 0
rm -rf "$venv"

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ "$(id -u)" = 0 ] && [ -e /etc/debian_version ]; then
    echo "installing python$version-venv, which this Python lacks ..."
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "python$version-venv" >/dev/null
    exec "$python" -m venv "$venv"
fi
echo "'$python -m venv' does not work here. On Debian and Ubuntu: apt-get install python$version-venv" >&2
exec "$python" -m venv "$venv"
