# A machine of its own: namespaces, and one control group below which everything of it is.
#
#     unshare --mount --kill-child bash machine.sh FOLDER
#
# FOLDER holds the program `rota`, the unit `rota.service` and these scripts. What the unit did is written to FOLDER/answer.
set -eu
folder=$1
mount --make-rprivate /
mkdir -p "$folder/cgroup"
mount -t cgroup2 none "$folder/cgroup"
group="$folder/cgroup/rota-unit-$$"
mkdir "$group"
code=0
(
  echo "$BASHPID" > "$group/cgroup.procs"
  exec unshare --pid --fork --kill-child --mount --uts --ipc --cgroup --mount-proc bash "$folder/systemd.sh" "$folder"
) || code=$?
find "$group" -depth -type d -exec rmdir {} + || true
exit "$code"
