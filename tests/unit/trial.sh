# What the unit must do. Each line of the answer is a fact.
folder=$1
exec > "$folder/answer" 2>&1
cd /
rota() { "$folder/rota" "$@"; }
user() { setpriv --reuid=65534 --regid=65534 --clear-groups "$folder/rota" "$@"; }
field() { rota show --json "$1" | grep -o "\"$2\": *[^,]*" | sed 's/.*: *//'; }
patiently() { for _ in $(seq 600); do "$@" && return; sleep 0.05; done; echo "waited in vain until $*"; }
answers() { rota status > /dev/null 2>&1; }
is() { [ "$(field "$1" state)" = "\"$2\"" ]; }
was_restarted() { [ "$(systemctl show rota.service -p NRestarts --value)" = 1 ]; }

patiently answers
first=$(user submit -- sh -c 'id -u; grep -c /rota- /proc/self/cgroup; grep NoNewPrivs /proc/self/status')
rota wait "$first" > /dev/null 2>&1
echo "first job: $(field "$first" state)"
rota logs "$first"
long=$(user submit -- sleep 600)
patiently is "$long" running
before=$(systemctl show rota.service -p MainPID --value)
systemctl restart rota.service
patiently answers
after=$(systemctl show rota.service -p MainPID --value)
[ "$before" != "$after" ] && echo "restarted"
echo "after a restart: $(field "$long" state), attempts $(field "$long" attempts)"
kill -9 "$after"
patiently was_restarted
patiently answers
echo "after kill -9: $(field "$long" state), attempts $(field "$long" attempts)"
user cancel "$long" > /dev/null
rota wait "$long" > /dev/null 2>&1
echo "cancelled: $(field "$long" state)"
systemctl stop rota.service
echo "stopped: $(systemctl show rota.service -p Result --value)"
