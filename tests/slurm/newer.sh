#!/bin/sh
# The tests of this folder with the Slurm of Debian 13 (24.11), in a chroot of its own. Needs root and debootstrap.
#   tests/slurm/newer.sh target/debug/rota [FOLDER]      FOLDER keeps the system for the next time; without one it is removed
set -eu
binary=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
keep=${2:-}
if [ -n "$keep" ]; then mkdir -p "$keep"; root=$(realpath "$keep"); else root=$(mktemp -d); fi
packages=munge,slurmctld,slurmd,slurm-client,slurm-wlm-basic-plugins,python3-minimal,libpython3-stdlib,iproute2
if [ ! -e "$root/complete" ]; then
  # The archive that this machine's own packages come from.
  archive=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -n 1)
  debootstrap --variant=minbase --include="$packages" trixie "$root" "$archive"
  touch "$root/complete"
fi
mounted=
leave() {
  for place in $mounted; do umount -l "$place" || true; done
  [ -n "$keep" ] || rm -rf --one-file-system "$root"
}
trap leave EXIT
mount -t proc proc "$root/proc" && mounted="$root/proc"
mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev" && mounted="$root/dev $mounted"
mount -t tmpfs tmpfs "$root/tmp" && mounted="$root/tmp $mounted"
mkdir -p "$root/opt/rota/tests"
cp "$binary" "$root/opt/rota/rota"
cp "$here"/*.py "$root/opt/rota/tests/"
# The host's name must be found: Slurm asks for it.
printf '127.0.0.1 localhost %s\n' "$(hostname -s)" > "$root/etc/hosts"
chroot "$root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin ROTA_BINARY=/opt/rota/rota python3 -m unittest discover -s /opt/rota/tests -t /opt/rota/tests
