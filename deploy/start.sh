#!/bin/sh
# What docker-compose.yml starts: serves RPCACCEL_NODES or RPCACCEL_CONFIG, and simulated nodes when neither is given.
# The admin side gets two accounts: `admin`, whose password is printed unless RPCACCEL_ADMIN_PASSWORD says it, and
# `prometheus`, which may only read and finds its own in the folder that both containers share.
set -eu
shared=${SHARED_FOLDER:-/run/rpcaccel}

made() { python -c 'import secrets; print(secrets.token_urlsafe(18))'; }

# printf, since some shells' echo reads backslashes. A password that is refused ends it here, with the reason.
hashed() {
    account=$(printf '%s\n' "$2" | rpcaccel passwd "$1") || exit
    printf '%s\n' "$account" | sed -n 's/^password = "\(.*\)"$/\1/p'
}

if [ -z "${RPCACCEL_ADMIN_PASSWORD:-}" ]; then
    RPCACCEL_ADMIN_PASSWORD=$(made)
    echo "rpcaccel: log in as admin with the password $RPCACCEL_ADMIN_PASSWORD"
fi
reader=$(made)
echo "prometheus:$reader" >"$shared/metrics"

export RPCACCEL_ADMIN__ACCOUNTS__ADMIN__ROLE=admin
RPCACCEL_ADMIN__ACCOUNTS__ADMIN__PASSWORD=$(hashed admin "$RPCACCEL_ADMIN_PASSWORD")
export RPCACCEL_ADMIN__ACCOUNTS__ADMIN__PASSWORD
export RPCACCEL_ADMIN__ACCOUNTS__PROMETHEUS__ROLE=read
RPCACCEL_ADMIN__ACCOUNTS__PROMETHEUS__PASSWORD=$(hashed prometheus "$reader")
export RPCACCEL_ADMIN__ACCOUNTS__PROMETHEUS__PASSWORD
unset RPCACCEL_ADMIN_PASSWORD reader

if [ -n "${RPCACCEL_NODES:-}${RPCACCEL_CONFIG:-}" ]; then
    exec rpcaccel serve "$@"
fi
echo "rpcaccel: no RPCACCEL_NODES are given: these nodes are simulated"
exec rpcaccel demo
