#!/bin/sh
# What docker-compose.yml starts as Alertmanager. ALERTS_SLACK_URL becomes the file that alertmanager.yml names, and all
# alerts go there; without it they go nowhere and are shown by Alertmanager alone.
set -eu
umask 077
configured=$(cd "$(dirname "$0")" && pwd)/alertmanager.yml
cd "${TMPDIR:-/tmp}"
receiver=page
if [ -n "${ALERTS_SLACK_URL:-}" ]; then
    receiver=slack
    printf '%s' "$ALERTS_SLACK_URL" >slack_url
    unset ALERTS_SLACK_URL
fi
sed -e "s|^  receiver: page\$|  receiver: $receiver|" "$configured" >alertmanager.yml
exec alertmanager --config.file=alertmanager.yml "$@"
