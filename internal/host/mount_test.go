package host_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/fault"
	"kops.local/kops/internal/host"
	"kops.local/kops/internal/resource"
)

func TestOnlyAnEmptyDeviceIsFormatted(t *testing.T) {
	for _, c := range []struct {
		holds, ran, message string
	}{
		{"", "blkid mkfs.ext4 -L x /dev/d; mount -t ext4 -o noatime /dev/d /data", ""},
		{"ext4\n", "blkid mount -t ext4 -o noatime /dev/d /data", ""},
		{"xfs\n", "blkid", "the device /dev/d holds xfs and not ext4"},
	} {
		m := machine(t)
		write(t, m, "/dev/d", "")
		var ran []string
		m.Command = func(ctx context.Context, name string, args ...string) ([]byte, error) {
			if name == "blkid" {
				ran = append(ran, name)
				if c.holds == "" {
					return host.Run(ctx, "sh", "-c", "exit 2")
				}
				return []byte(c.holds), nil
			}
			ran = append(ran, name+" "+strings.Join(args, " "))
			if name != "mount" {
				ran[len(ran)-1] += ";"
			}
			return nil, nil
		}
		err := host.Mounts.Create(t.Context(), m, &host.Mount{Path: "/data", Device: "/dev/d", Filesystem: "ext4", FormatOptions: []string{"-L", "x"}, Options: []string{"noatime"}})
		if got := strings.Join(ran, " "); got != c.ran || (err == nil) != (c.message == "") || err != nil && err.Error() != c.message {
			t.Errorf("ran %s: %v", got, err)
		}
	}
	m := machine(t)
	write(t, m, "/proc/self/mounts", "/dev/d /my\\040data ext4 rw 0 0\n")
	got, err := host.Mounts.List(t.Context(), m, resource.Scope{Names: []string{"/dev/d on /my data", "/dev/e on /other"}})
	if err != nil || len(got) != 1 || got[0].Device != "/dev/d" || got[0].Filesystem != "ext4" {
		t.Errorf("%v %+v", err, got)
	}
}

// The kernel tells of the device itself where the configuration names a link to it.
func TestADeviceThatIsNamedByALink(t *testing.T) {
	m := machine(t)
	write(t, m, "/dev/nvme1n1", "")
	write(t, m, "/dev/nvme2n1", "")
	if err := os.Symlink("nvme1n1", filepath.Join(m.Root, "/dev/xvdf")); err != nil {
		t.Fatal(err)
	}
	want, k := host.Mount{Path: "/data", Device: "/dev/xvdf", Filesystem: "ext4"}, host.Mounts.Erase()
	for device, message := range map[string]string{"/dev/nvme1n1": "", "/dev/nvme2n1": "the device /dev/nvme2n1 is mounted on /data, and not /dev/xvdf", "tmpfs": "the device tmpfs is mounted on /data, and not /dev/xvdf"} {
		write(t, m, "/proc/self/mounts", device+" /data ext4 rw 0 0\n")
		have, err := k.Observe(t.Context(), m, resource.Scope{Names: []string{k.KeyOf(&want)}})
		switch {
		case message != "":
			if err == nil || !strings.HasSuffix(err.Error(), message) || !fault.Is(err, fault.Permanent) {
				t.Errorf("%s: %v", device, err)
			}
		case err != nil || len(have) != 1 || have[0].Key != k.KeyOf(&want) || len(k.Schema().Diff(&want, have[0].Got)) > 0:
			t.Errorf("%s: %+v, %v", device, have, err)
		}
	}
}
