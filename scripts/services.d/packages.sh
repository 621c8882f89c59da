# shellcheck shell=bash disable=SC2154,SC2164  # sourced by scripts/services, under its set -e
# Debian packages: the servers, the browser, and what the Rust build links against or runs.

has() { command -v "$1" >/dev/null; }
has_library() { has pkg-config && pkg-config --exists "$1"; }

missing_packages() {
  { has cc && has c++ && has make; } || echo build-essential
  has cmake || echo cmake
  has pkg-config || echo pkg-config
  has_library openssl || echo libssl-dev
  has_library zlib || echo zlib1g-dev
  { postgres_installed && has psql; } || echo postgresql
  redis_installed || echo redis-server
  pgbouncer_installed || echo pgbouncer
  has java || echo default-jre-headless
  has mvn || echo maven
  has chromium || echo chromium
  has chromedriver || echo chromium-driver
  has systemd-analyze || echo systemd
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

packages_install() {
  local packages apt log=$state/packages.log
  mapfile -t packages < <(missing_packages)
  [ ${#packages[@]} -gt 0 ] || return 0
  has apt-get || die "please install what your system calls these Debian packages: ${packages[*]}"
  as_root true 2>/dev/null || die "packages are missing; please run, as root: apt-get install ${packages[*]}"
  apt=(as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  say "installing ${packages[*]}"
  { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${packages[@]}"; } \
    >"$log" 2>&1 </dev/null || die_with_log "$log" "cannot install ${packages[*]}"
}
