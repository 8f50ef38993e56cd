# Sourced by the other scripts.

# Installs Debian packages, where that can be done without asking anybody: on Debian or its like, as root.
debian_install() {
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    return 1
  fi
  echo "Installing $* with apt-get" >&2
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q </dev/null >&2
  apt-get install -q -y --no-install-recommends "$@" </dev/null >&2
}
