#!/bin/sh
# What docker-compose.yml starts as Alertmanager. ALERTS_SLACK_URL becomes the file that alertmanager.yml names, and all
# alerts go there; without it they go nowhere and are shown by Alertmanager alone.
set -eu
umask 077
work=${WORK_FOLDER:-/tmp}
receiver=page
if [ -n "${ALERTS_SLACK_URL:-}" ]; then
    receiver=slack
    printf '%s' "$ALERTS_SLACK_URL" >"$work/slack_url"
    unset ALERTS_SLACK_URL
fi
sed -e "s|^  receiver: page\$|  receiver: $receiver|" -e "s|/tmp/slack_url|$work/slack_url|" \
    "$(dirname "$0")/alertmanager.yml" >"$work/alertmanager.yml"
exec alertmanager --config.file="$work/alertmanager.yml" "$@"
