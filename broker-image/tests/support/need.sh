#!/usr/bin/env bash
# need.sh THING...: see that these are there: venv, java, mvn, kcat.
# What is missing is installed with apt when we are root; else one line says what to install.
set -euo pipefail

has() {
    case $1 in
        # Debian splits ensurepip off, without which a virtual environment cannot be made.
        venv) "${PYTHON:-python3.11}" -m ensurepip --version ;;
        # Apache Kafka 4 needs Java 17 on its server side.
        java) java -version 2>&1 | awk -F'[".]' '/version/ { exit !($2 >= 17) }' ;;
        *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

package() {
    case $1 in
        venv) echo python3.11-venv ;;
        java) echo openjdk-17-jre-headless ;;
        mvn) echo maven ;;
        *) echo "$1" ;;
    esac
}

missing=()
for thing in "$@"; do
    has "$thing" || missing+=("$(package "$thing")")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
else
    echo "missing: install ${missing[*]} (on Debian: sudo apt-get install ${missing[*]})" >&2
    exit 1
fi
