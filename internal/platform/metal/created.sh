# Marks the etcd clusters as created of which this host has data.
for disk in "$root"/mnt/disks/"$cluster"--*; do
  [ -d "$disk/data" ] || continue
  etcd="${disk#"$root/mnt/disks/$cluster--"}"
  control="$root$folder/backups/etcd/${etcd%--*}/control"
  if [ -d "$control" ] && [ ! -e "$control/etcd-cluster-created" ]; then
    echo "{\"timestamp\": $(date +%s)000000000}" > "$control/etcd-cluster-created"
  fi
done
