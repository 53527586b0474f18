# Sourced by the other scripts: makes .venv and node_modules ready, and installs only what changed since.
# shellcheck shell=bash

cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s\n' "$*" >&2; }
give_up() {
  say "error: $*"
  exit 2
}

# Install a system package when this may be done here: apt-get is there and we are root.
system_package() {
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "Installing $* with apt-get …"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qqy --no-install-recommends "$@"; } >&2
  else
    return 1
  fi
}

find_python() {
  local candidate
  for candidate in python3 python3.11 python3.12 python3.13 python3.14; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

# Make .venv with the package in it, editable, and the given dependency groups.
prepare_python() {
  local python groups=() group stamp wanted
  for group in "$@"; do groups+=(--group "$group"); done
  if [ ! -x .venv/bin/python ]; then
    python=$(find_python) || {
      system_package python3 python3-venv || give_up "Python 3.11 or newer with venv is needed: install it first."
      python=$(find_python) || give_up "Python 3.11 or newer is needed; this system has an older one."
    }
    say "Making .venv …"
    "$python" -m venv .venv
  fi
  stamp=.venv/.prepared-$(IFS=-; printf '%s' "$*")
  wanted=$(cksum pyproject.toml)
  if [ ! -x .venv/bin/fallback-plugin ] || [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    say "Installing Python packages …"
    # Dependency groups need pip 25.1; the one that comes with Python 3.11 is older.
    .venv/bin/python -m pip install -qq --upgrade 'pip>=25.1'
    .venv/bin/python -m pip install -qq --editable ".[serve]" "${groups[@]}"
    printf '%s\n' "$wanted" >"$stamp"
  fi
}

# Install the OpenCode that package.json names.
prepare_opencode() {
  command -v npm >/dev/null || system_package nodejs npm ||
    give_up "npm is needed to install OpenCode: install Node.js (which brings npm) and run this again."
  local stamp=node_modules/.prepared wanted
  wanted=$(cksum package.json)
  if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    say "Installing OpenCode …"
    npm_config_fetch_retries=0 npm install --no-package-lock --no-audit --no-fund --loglevel=error >&2
    printf '%s\n' "$wanted" >"$stamp"
  fi
}

# Install tmux, which holds a terminal for the tests of OpenCode's own screen. Without it they are skipped.
prepare_terminal() {
  command -v tmux >/dev/null || system_package tmux ||
    say "tmux is missing: the tests of the terminal UI are skipped. Install it to run them."
}

# Install iproute2, with which the tests of several machines make network namespaces. Without it they are skipped.
prepare_namespaces() {
  command -v ip >/dev/null || system_package iproute2 ||
    say "iproute2 is missing: the tests of several machines are skipped. Install it to run them."
}

# Install redis-server, which the tests of health on several machines start by themselves. Without it they are skipped.
prepare_redis() {
  command -v redis-server >/dev/null || system_package redis-server ||
    say "redis-server is missing: the tests of health on several machines are skipped. Install it to run them."
}

# Install chromium, in which the tests of the page look at it. Without it they are skipped.
prepare_browser() {
  command -v chromium >/dev/null || command -v chromium-browser >/dev/null || system_package chromium ||
    say "chromium is missing: the tests of the page are skipped. Install it to run them."
}
