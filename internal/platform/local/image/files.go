package image

// file is a file to add to an image; its path has no leading slash.
type file struct {
	Path, Text string
	Executable bool
}

// link is a symbolic link in an image.
type link struct{ Path, Target string }

// removedPaths returns folders and files that no machine needs.
func removedPaths() []string {
	return []string{
		"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian",
		"var/cache/apt", "var/lib/apt/lists", "var/log/apt", "var/log/dpkg.log", "var/log/bootstrap.log",
		"etc/machine-id", "var/lib/dbus/machine-id", "etc/hostname", "etc/resolv.conf", "etc/hosts",
	}
}

// maskedUnits returns the units that make no sense in a container: devices, seats,
// consoles, and Debian's scheduled jobs.
func maskedUnits() []string {
	return []string{
		"systemd-udevd.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket", "systemd-udev-trigger.service",
		"systemd-logind.service", "getty.target", "console-getty.service", "getty@.service",
		"networking.service", "systemd-networkd-wait-online.service", "systemd-firstboot.service",
		"modprobe@.service", "cron.service", "e2scrub_reap.service", "systemd-timesyncd.service", "systemd-resolved.service",
		"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer",
	}
}

func extraLinks() []link {
	const units = "etc/systemd/system/"
	out := []link{
		{units + "sysinit.target.wants/kops-machine.service", "/usr/lib/systemd/system/kops-machine.service"},
		{units + "multi-user.target.wants/kops-userdata.service", "/usr/lib/systemd/system/kops-userdata.service"},
		{units + "multi-user.target.wants/systemd-networkd.service", "/lib/systemd/system/systemd-networkd.service"},
		{units + "default.target", "/lib/systemd/system/multi-user.target"},
	}
	for _, u := range maskedUnits() {
		out = append(out, link{units + u, "/dev/null"})
	}
	return out
}

func extraFiles() []file {
	return []file{
		{Path: "usr/lib/systemd/system/kops-machine.service", Text: machineUnit},
		{Path: "usr/lib/kops/machine", Text: machineScript, Executable: true},
		{Path: "usr/lib/systemd/system/kops-userdata.service", Text: userDataUnit},
		{Path: "usr/lib/kops/userdata", Text: userDataScript, Executable: true},
		{Path: "etc/systemd/system.conf.d/kops.conf", Text: "[Manager]\nDefaultTimeoutStopSec=15s\n"},
	}
}

const machineUnit = `[Unit]
Description=Make this container like a machine
DefaultDependencies=no
Before=sysinit.target systemd-networkd.service systemd-sysctl.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/lib/kops/machine
`

// machineScript runs before everything else inside a machine. /sys must be read-only,
// or the network daemon waits for device events that never come; kubelet needs shared
// mounts and writable control groups.
const machineScript = `#!/bin/sh
set -u
if [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
  # of the mounts alone: the trees themselves belong to the host
  mount -o remount,bind,rw /sys/fs/cgroup
  for tree in /sys/fs/cgroup/*/; do
    mount -o remount,bind,rw "${tree%/}"
  done
  [ ! -e /sys/fs/cgroup/cpuset/cgroup.clone_children ] || echo 1 > /sys/fs/cgroup/cpuset/cgroup.clone_children
fi
mount -o remount,bind,ro /sys
mount --make-rshared /
[ ! -e /etc/kops/meminfo ] || mount --bind /etc/kops/meminfo /proc/meminfo
`

const userDataUnit = `[Unit]
Description=Run this machine's user data, once
Wants=systemd-networkd.service
After=systemd-networkd.service dbus.service
ConditionPathExists=/var/lib/cloud/instance/scripts
ConditionPathExists=!/var/lib/cloud/instance/boot-finished

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/lib/kops/userdata
StandardOutput=journal+console
StandardError=journal+console
TimeoutStartSec=infinity

[Install]
WantedBy=multi-user.target
`

// userDataScript runs the scripts of the user data, in the order of their names, once
// the machine has its address. If one fails, the next boot tries again.
const userDataScript = `#!/bin/sh
set -eu
export HOME=/root
i=0
until ip -4 -o address show dev host0 scope global | grep -q inet; do
  i=$((i+1))
  [ $i -lt 300 ] || { echo "user data: host0 has no address after 30 seconds" >&2; exit 1; }
  sleep 0.1
done
for script in /var/lib/cloud/instance/scripts/*; do
  [ -e "$script" ] || continue
  echo "user data: running ${script##*/}"
  "$script" || { status=$?; echo "user data: ${script##*/} failed with status $status" >&2; exit $status; }
done
touch /var/lib/cloud/instance/boot-finished
echo "user data: finished"
`
