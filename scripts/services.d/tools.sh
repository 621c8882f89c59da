# shellcheck shell=bash disable=SC2154,SC2164  # sourced by scripts/services, under its set -e
# What checks deploy/: promtool for alert rules, and deploy-check for Dockerfiles and Kubernetes manifests. They are in
# target/services/tools; nothing is started.

tools=$state/tools
deploy_check_source=$repo/scripts/deploy-check

tools_install() {
  mkdir -p "$tools"
  promtool_installed || promtool_install
  deploy_check_installed || deploy_check_install
}

promtool_installed() { [ -x "$tools/promtool" ]; }

# Only the program of the package: the package itself would start a server.
promtool_install() {
  local log=$tools/promtool.log found
  if found=$(command -v promtool); then ln -sf "$found" "$tools/promtool"; return; fi
  has apt-get || die "please install promtool (it comes with Prometheus) into your PATH"
  say "fetching promtool"
  (
    cd "$tools"
    rm -f prometheus_*.deb
    apt-get download prometheus || { as_root apt-get update && apt-get download prometheus; }
    dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 ./usr/bin/promtool
    rm -f prometheus_*.deb
  ) >"$log" 2>&1 </dev/null || die_with_log "$log" "cannot fetch promtool"
}

deploy_check_installed() {
  [ -x "$tools/deploy-check" ] && [ -z "$(find "$deploy_check_source" -newer "$tools/deploy-check")" ]
}

deploy_check_install() {
  local log=$tools/deploy-check.log
  has go || die "please install Go 1.21 or newer (https://go.dev/dl): it builds what checks deploy/"
  say "building deploy-check with Go"
  CGO_ENABLED=0 go build -C "$deploy_check_source" -buildvcs=false -o "$tools/deploy-check" . >"$log" 2>&1 </dev/null ||
    die_with_log "$log" "cannot build deploy-check (Go 1.21 or newer fetches the version it needs)"
  touch "$tools/deploy-check"
}
