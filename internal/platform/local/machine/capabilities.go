package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Files of the wrapper: programs find it before the program that it wraps.
const (
	runcWrapper = "/usr/local/sbin/runc"
	statusFile  = "/proc/self/status"
	lastFile    = "/proc/sys/kernel/cap_last_cap"
)

// capabilityNames are the capabilities in the order of their numbers (linux/capability.h).
const capabilityNames = `CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
	NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE
	SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND
	AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`

// capabilityFiles returns the files by which containers in a machine start even if they ask for
// capabilities that root does not have on this host, which is itself a container then. On other hosts
// there are none.
func capabilityFiles() ([]seedFile, error) {
	status, err := os.ReadFile(statusFile)
	if err != nil {
		return nil, err
	}
	last, err := os.ReadFile(lastFile)
	if err != nil {
		return nil, err
	}
	missing, err := missingCapabilities(string(status), string(last))
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	return []seedFile{{runcWrapper, wrapper(missing), 0o755}}, nil
}

// missingCapabilities lists the capabilities that no process can have, by the text of a process's status
// and the number of the kernel's last capability.
func missingCapabilities(status, last string) ([]string, error) {
	highest, err := strconv.Atoi(strings.TrimSpace(last))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", lastFile, err)
	}
	for line := range strings.Lines(status) {
		text, found := strings.CutPrefix(line, "CapBnd:")
		if !found {
			continue
		}
		has, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", statusFile, err)
		}
		var out []string
		for i, name := range strings.Fields(capabilityNames) {
			if i <= highest && has&(1<<i) == 0 {
				out = append(out, "CAP_"+name)
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s does not list capabilities", statusFile)
}

// wrapper returns a script that removes capabilities from what a container or a process asks for, and then
// runs the runc that comes after it in PATH.
func wrapper(missing []string) []byte {
	var edits strings.Builder
	for _, m := range missing {
		fmt.Fprintf(&edits, ` -e 's/"%[1]s",//g; s/,"%[1]s"//g; s/"%[1]s"//g'`, m)
	}
	return fmt.Appendf(nil, `#!/bin/sh
# Runs containers without the capabilities that root does not have on this host; made by kops.
file= last=
for word in "$@"; do
  case $last in
  -b | --bundle) file=$word/config.json ;;
  -p | --process) file=$word ;;
  esac
  last=$word
done
[ ! -f "$file" ] || sed -i%s "$file"
IFS=:
for dir in $PATH; do
  [ "$dir/runc" = "$0" ] || [ ! -x "$dir/runc" ] || exec "$dir/runc" "$@"
done
echo "runc is not installed" >&2
exit 127
`, edits.String())
}
