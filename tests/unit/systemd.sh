# PID 1 of that machine: systemd with the unit that is shipped, and another unit that tries it.
set -eu
folder=$1
for place in /run /var/lib; do mount -t tmpfs -o mode=755 tmpfs $place; done
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /run/lock /run/systemd/system/rota.service.d
cp "$folder/rota.service" /run/systemd/system/
# Only what this machine has not: the program's place, a GPU, and the rest of a system.
cat > /run/systemd/system/rota.service.d/here.conf <<E
[Unit]
DefaultDependencies=no
[Service]
ExecStart=
ExecStart=$folder/rota up --foreground --virtual-gpus a100:2 --port 0
E
# It only wants the daemon: what requires another unit is restarted with it.
cat > /run/systemd/system/trial.service <<E
[Unit]
DefaultDependencies=no
Wants=rota.service
After=rota.service
[Service]
Type=oneshot
TimeoutStartSec=100
ExecStart=-/bin/bash $folder/trial.sh $folder
ExecStartPost=/bin/systemctl --force exit 0
E
export container=lxc
exec systemd --system --unit=trial.service --log-target=console --show-status=no > "$folder/systemd.log" 2>&1
