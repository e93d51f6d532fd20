#!/usr/bin/env bash
# Installs the Debian packages that this project needs and that are missing:
#   scripts/deps.sh build    to build it, install it and run the demo
#   scripts/deps.sh ctl      to build outboxctl
#   scripts/deps.sh check    also to run all tests
#   scripts/deps.sh bench    to build it and measure it
#   scripts/deps.sh examples check, and the languages of examples/ (LANGUAGES="python go": only these) that have no
#                            program in the PATH yet
#   scripts/deps.sh deb      to build the Debian packages
#   scripts/deps.sh docs     to build the documentation as a site
#   scripts/deps.sh lint     also for "make format" and "make lint"
#   scripts/deps.sh monitoring  check, and Prometheus with its exporters
# No package's service is started, or made one of the machine: the programs only.
# It says what it is about to install and uses sudo when not run by root. DEPS=skip leaves packages alone.
# With PG_CONFIG set, or a pg_config in the PATH that comes with a server and its headers, PostgreSQL is left
# alone too; otherwise it is the distribution's version (Debian 12: 15, Debian 13: 17, Ubuntu 24.04: 16).
set -euo pipefail

build_packages=(g++ make pkg-config libpq-dev libcli11-dev libfmt-dev kcat)
# And what the sinks are built with: each says so in its folder.
mapfile -t sink_packages < <(sed -n 's/^SINK_[a-z0-9_]*_DEV *:= *\(.*\)/\1/p' \
    "$(dirname "${BASH_SOURCE[0]}")"/../bgworker/sinks/*/sink.mk | tr -s ' ' '\n')
build_packages+=("${sink_packages[@]}")
ctl_packages=(g++ make libpq-dev librdkafka-dev libcli11-dev libfmt-dev nlohmann-json3-dev)
# redis-tools holds Redis's server program too; the package redis-server would start it for the machine.
check_packages=(libgtest-dev libgmock-dev nlohmann-json3-dev man-db mandoc maven default-jre-headless
    libhiredis-dev redis-tools pgbouncer cmake libssl-dev openssl python3-venv rabbitmq-server python3-pika nats-server)
bench_packages=(nlohmann-json3-dev maven default-jre-headless gnuplot-nox python3 rabbitmq-server nats-server)
lint_packages=(clang-format clang-tidy)
docs_packages=(python3 python3-venv)
service_packages=(rabbitmq-server nats-server prometheus prometheus-postgres-exporter prometheus-sql-exporter)
monitoring_packages=(prometheus prometheus-postgres-exporter prometheus-sql-exporter curl)

# The packages of a language's example: "program package" each.
language_packages() {
    case $1 in
    psql) echo "jq jq" ;;
    python) echo "python3 python3-venv" ;;
    go) echo "go golang-go" ;;
    node) printf '%s\n' "node nodejs" "npm npm" ;;
    java) echo "javac default-jdk-headless" ;;
    rust) printf '%s\n' "cargo cargo" ;;
    esac
}
examples_packages() {
    local language program package
    for language in ${LANGUAGES:-psql python go node java rust}; do
        while read -r program package; do
            command -v "$program" >/dev/null || echo "$package"
        done < <(language_packages "$language")
    done
    echo zlib1g-dev
}

say() { printf '%s\n' "$*"; }
fail() {
    printf 'deps.sh: %s\n' "$@" >&2
    exit 1
}

installed() { [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Whether there is a PostgreSQL to build for and to run.
have_postgresql() {
    local pg_config=${PG_CONFIG:-pg_config}
    command -v "$pg_config" >/dev/null || return 1
    [ -x "$("$pg_config" --bindir)/postgres" ] && [ -f "$("$pg_config" --pgxs)" ] &&
        [ -f "$("$pg_config" --includedir-server)/postgres.h" ]
}

# A set PG_CONFIG that is not just the default name is a choice that we do not second-guess.
chosen_postgresql() { [ -n "${PG_CONFIG:-}" ] && [ "$PG_CONFIG" != pg_config ]; }

# The version that the distribution's package "postgresql" stands for.
distribution_version() {
    apt-cache depends postgresql 2>/dev/null | sed -n 's/.*Depends: postgresql-\([0-9]\+\)$/\1/p' | head -n 1
}

# Debian's server package makes and starts a cluster for the machine when it is first installed. That is not
# what is wanted to build an extension, so a file of ours prevents it, in the directory that
# Debian has for such settings, for as long as the installation takes. Settings that exist are not touched.
without_machine_cluster() {
    local dir=/etc/postgresql-common/createcluster.d
    local file=$dir/zz-outbox-build.conf
    local had_dir=no
    [ -d "$dir" ] && had_dir=yes
    "${as_root[@]}" mkdir -p "$dir"
    echo "create_main_cluster = false" | "${as_root[@]}" tee "$file" >/dev/null
    local status=0
    "$@" || status=$?
    "${as_root[@]}" rm -f "$file"
    [ "$had_dir" = yes ] || "${as_root[@]}" rmdir --ignore-fail-on-non-empty "$dir"
    return "$status"
}

# Packages of services start them, and at the next boot of the machine again. Who tests here wants the programs
# only: policy-rc.d is Debian's way to keep services from starting, for as long as the installation takes.
without_services() {
    local policy=/usr/sbin/policy-rc.d package status=0 new=() ours=no
    for package in "${service_packages[@]}"; do
        installed "$package" || new+=("$package")
    done
    if [ ${#new[@]} -gt 0 ] && [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
        "${as_root[@]}" chmod 755 "$policy"
        ours=yes
    fi
    "$@" || status=$?
    [ "$ours" = no ] || "${as_root[@]}" rm -f "$policy"
    for package in "${new[@]}"; do
        installed "$package" || continue
        local unit units=("$package.service")
        # Erlang's port mapper comes with it.
        [ "$package" != rabbitmq-server ] || units+=(epmd.service epmd.socket)
        for unit in "${units[@]}"; do
            "${as_root[@]}" deb-systemd-helper disable "$unit" >/dev/null ||
                say "could not keep $unit from starting at the next boot: systemctl disable $unit"
        done
    done
    return "$status"
}

# apt-get has much to say; it goes to a log, of which one sees the end when something went wrong.
apt_get() {
    local log
    log=$(mktemp "${TMPDIR:-/tmp}/outbox-apt.XXXXXX")
    local status=0
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" \
        </dev/null >"$log" 2>&1 || status=$?
    [ "$status" -eq 0 ] || tail -n 40 "$log" >&2
    rm -f "$log"
    return "$status"
}

# What debian/control.in says, what the sinks are built with, and what every package of Debian is.
deb_packages() {
    printf '%s\n' build-essential fakeroot "${sink_packages[@]}"
    sed -n '/^Build-Depends:/,/^[^ ]*:/s/^ \([a-z0-9.+-]*\).*/\1/p' "$(dirname "${BASH_SOURCE[0]}")/../debian/control.in" |
        sed s/-compat$//
}

case ${1:-} in
build) packages=("${build_packages[@]}") ;;
ctl) packages=("${ctl_packages[@]}") ;;
check) packages=("${build_packages[@]}" "${check_packages[@]}") ;;
deb) mapfile -t packages < <(deb_packages | awk '!named[$0]++') ;;
docs) packages=("${docs_packages[@]}") ;;
examples)
    mapfile -t packages < <(examples_packages)
    packages+=("${build_packages[@]}" "${check_packages[@]}")
    ;;
bench) packages=("${build_packages[@]}" "${bench_packages[@]}") ;;
monitoring) packages=("${build_packages[@]}" "${check_packages[@]}" "${monitoring_packages[@]}") ;;
lint) packages=("${build_packages[@]}" "${check_packages[@]}" "${bench_packages[@]}" "${lint_packages[@]}") ;;
*) fail "usage: scripts/deps.sh build|ctl|check|bench|deb|docs|lint|monitoring|examples" ;;
esac

if [ "${DEPS:-}" = skip ]; then
    say "DEPS=skip: packages are left as they are"
    exit 0
fi

# outboxctl needs the client's library only; packages are built with the headers of every PostgreSQL; pages with none.
need_postgresql=no
case ${1:-} in
ctl | deb | docs) ;;
*) have_postgresql || need_postgresql=yes ;;
esac
if [ "$need_postgresql" = yes ] && chosen_postgresql; then
    fail "PG_CONFIG is $PG_CONFIG, but there is no server with its headers to be found through it"
fi

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    [ "$need_postgresql" = no ] || packages+=("postgresql (15 or later)" "its server headers")
    fail "this is no Debian or Ubuntu; please install what these packages contain:" "${packages[*]}" \
        "then say DEPS=skip"
fi

missing=()
for package in "${packages[@]}"; do
    [ "$package" = default-jre-headless ] && command -v java >/dev/null && continue # any Java will do
    installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ] && [ "$need_postgresql" = no ]; then
    exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
        fail "these packages are missing, and there is no sudo to install them with:" \
            "${missing[*]} $([ "$need_postgresql" = no ] || echo "postgresql and postgresql-server-dev of its version")"
    as_root=(sudo)
fi

# A machine just made has no package lists at all.
apt_get update || fail "apt-get update failed; see above"
if [ "$need_postgresql" = yes ]; then
    version=$(distribution_version)
    [ -n "$version" ] || fail "the distribution has no package postgresql; set PG_CONFIG to the one to use"
    missing+=("postgresql-$version" "postgresql-server-dev-$version")
fi

say "about to install with apt-get: ${missing[*]}"
without_services without_machine_cluster apt_get install -y --no-install-recommends "${missing[@]}" ||
    fail "apt-get could not install the packages; see above"
