# Runs the boot script of a host, and waits for an API server that was ready before.
ready() { curl --silent --fail --max-time 3 --output /dev/null http://127.0.0.1:3990/readyz; }
was=no
if ready; then was=yes; fi
systemctl stop kops-configuration.service 2>/dev/null || true
log="$root/var/log/kops-boot.log"
mkdir -p "$(dirname "$log")"
timeout 900 bash "$root/etc/kubernetes/kops/boot.sh" < /dev/null > "$log" 2>&1 || { tail -n 5 "$log" >&2; exit 1; }
[ "$was" = yes ] || exit 0
n=0
until [ "$(systemctl show --property ActiveState --value kops-configuration.service)" != activating ] && ready; do
  n=$((n + 1))
  [ "$n" -lt 300 ] || { echo "the API server is not ready again after 10 minutes" >&2; exit 1; }
  sleep 2
done
