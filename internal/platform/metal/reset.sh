# Ends what a cluster runs on a host, and removes what nodeup and enrollment have put there.
for unit in kops-configuration.service kops-renewal.timer kops-renewal.service kops-presence.service kops-apply.service kubelet.service; do
  systemctl disable --now "$unit" 2>/dev/null || true
done
# all processes of pods, those that start meanwhile too
n=0
while pids=$(find "$root/sys/fs/cgroup" -path '*kubepods*' -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u) && [ -n "$pids" ] && [ "$n" -lt 50 ]; do
  kill -9 $pids 2>/dev/null || true
  n=$((n + 1))
  sleep 0.1
done
systemctl disable --now containerd.service 2>/dev/null || true
pkill -9 -f 'containerd-shi[m].* -namespace k8s.io ' 2>/dev/null || true # which stay behind
sed 's/^[^ ]* \([^ ]*\) .*/\1/' /proc/mounts | grep -E "^$root/(var/lib/kubelet|run/containerd|run/netns/cni-)" | sort -r | while read -r mount; do
  umount -l "$mount" 2>/dev/null || true
done
for link in cbr0 cni0; do
  ip link delete "$link" 2>/dev/null || true
done
rm -f "$root"/etc/systemd/system/kops-*.service "$root"/etc/systemd/system/kops-*.timer "$root"/etc/sysconfig/kops-configuration
if [ -e "$root/etc/hosts" ]; then
  sed '/host entries managed by kops/,/host entries managed by kops/d' "$root/etc/hosts" > "$root/etc/hosts.new"
  cat "$root/etc/hosts.new" > "$root/etc/hosts"
  rm -f "$root/etc/hosts.new"
fi
find "$root/etc/kubernetes" -mindepth 1 -maxdepth 1 ! -name kops -exec rm -rf {} + 2>/dev/null || true
rm -rf "$root/etc/kubernetes/kops/control-plane" "$root/etc/kubernetes/kops/boot.sh"
# a folder with the cluster's own objects is the state store itself
if [ -n "$folder" ] && [ ! -e "$root$folder/config" ]; then rm -rf "$root$folder"; fi
for disk in "$root"/mnt/disks/"$cluster"--*; do
  [ -d "$disk" ] || continue
  find "$disk" -mindepth 1 -delete
  rmdir "$disk" 2>/dev/null || true # it may be a mount
done
rm -rf "$root/var/lib/kubelet" "$root/srv/kubernetes" "$root/etc/cni/net.d" "$root/opt/kops"
systemctl daemon-reload 2>/dev/null || true
rm -f "$root/etc/kubernetes/kops/host.json"
