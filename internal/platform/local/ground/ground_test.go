package ground

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"kops.local/kops/internal/engine/fault"
)

func TestCheckNamesTheRemedy(t *testing.T) {
	all := func(string) (string, error) { return "/usr/bin/x", nil }
	there := func(string) (os.FileInfo, error) { return nil, nil }
	for _, c := range []struct {
		name            string
		host            Host
		message, remedy string
		class           fault.Class
	}{
		{"a good host", Host{"linux", 0, all, there}, "", "", ""},
		{"not Linux", Host{"darwin", 501, all, there}, "the machines of the local cloud are Linux containers, but this host runs darwin",
			"run kops on a Linux host, or in a Linux virtual machine", fault.Permanent},
		{"not root", Host{"linux", 1000, all, there}, "the local cloud needs root, to create network interfaces, mounts and control groups",
			"run the command again with: sudo --preserve-env", fault.Denied},
		{"packages are missing", Host{"linux", 0, func(p string) (string, error) {
			if p == "debootstrap" || p == "systemd-nspawn" {
				return "", errors.New("not found")
			}
			return p, nil
		}, there}, "this host lacks what the local cloud needs: systemd-nspawn, debootstrap", "run: apt-get install -y systemd-container debootstrap", fault.Permanent},
		{"a host that is no Debian", Host{"linux", 0, func(p string) (string, error) {
			if p == "apt-get" || p == "debootstrap" {
				return "", errors.New("not found")
			}
			return p, nil
		}, there}, "this host lacks what the local cloud needs: debootstrap",
			"install it with the package manager of this host; its Debian packages are debootstrap", fault.Permanent},
		{"programs of one package are missing", Host{"linux", 0, func(p string) (string, error) {
			if p == "mkfs.ext4" || p == "debugfs" {
				return "", errors.New("not found")
			}
			return p, nil
		}, there}, "this host lacks what the local cloud needs: mkfs.ext4, debugfs", "run: apt-get install -y e2fsprogs", fault.Permanent},
		{"no loop devices", Host{"linux", 0, all, func(file string) (os.FileInfo, error) {
			if file == loopControl {
				return nil, os.ErrNotExist
			}
			return nil, nil
		}}, "the local cloud needs loop devices, for the disks of its machines, but this host has no /dev/loop-control",
			"run: modprobe loop; if kops runs in a container, the container needs access to the device", fault.Permanent},
		{"Debian's keys are missing", Host{"linux", 0, all, func(string) (os.FileInfo, error) { return nil, os.ErrNotExist }},
			"this host lacks what the local cloud needs: /usr/share/keyrings/debian-archive-keyring.gpg", "run: apt-get install -y debian-archive-keyring", fault.Permanent},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Check(c.host)
			message := ""
			if err != nil {
				message = err.Error()
			}
			if message != c.message || fault.Remedy(err) != c.remedy || fault.Of(err) != c.class {
				t.Errorf("%q, %q, %s", message, fault.Remedy(err), fault.Of(err))
			}
		})
	}
}

func TestSysctlsAreAsBefore(t *testing.T) {
	root := t.TempDir()
	for name, value := range map[string]string{"vm/overcommit_memory": "0\n", "kernel/panic": "1\n", "kernel/hostname": "x\n"} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	was := ReadSysctls(root)
	if len(was) != 2 || was["vm/overcommit_memory"] != "0" {
		t.Fatalf("read %v", was)
	}
	if err := SetSysctl(root, "vm/overcommit_memory", "1"); err != nil {
		t.Fatal(err)
	}
	was["../etc/passwd"] = "x" // a record that was tampered with cannot reach other files
	if err := RestoreSysctls(root, was); err != nil {
		t.Fatal(err)
	}
	if now := ReadSysctls(root); now["vm/overcommit_memory"] != "0" || now["kernel/panic"] != "1" {
		t.Errorf("restored to %v", now)
	}
}

func TestSysctlsAreRaisedAndNeverLowered(t *testing.T) {
	root := t.TempDir()
	for name, value := range map[string]string{"max_user_instances": "128\n", "max_user_watches": "999999\n"} {
		if err := os.MkdirAll(filepath.Join(root, "fs/inotify"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "fs/inotify", name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := RaiseSysctls(root); err != nil {
		t.Fatal(err)
	}
	now := ReadSysctls(root)
	if now["fs/inotify/max_user_instances"] != "8192" || now["fs/inotify/max_user_watches"] != "999999" {
		t.Errorf("raised to %v", now)
	}
	if err := RaiseSysctls(t.TempDir()); err != nil {
		t.Errorf("a kernel without these settings: %v", err)
	}
}
