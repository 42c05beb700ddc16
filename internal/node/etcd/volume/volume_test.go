package volume

import (
	"context"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
)

// cloud holds volumes in memory.
type cloud struct {
	volumes  []Volume
	attached string
}

func (c *cloud) Volumes(context.Context) ([]Volume, error) { return c.volumes, nil }

func (c *cloud) Attach(_ context.Context, v Volume) error { c.attached = v.ID; return nil }

type mounter struct{}

func (mounter) Mount(_ context.Context, v Volume) (string, error) { return "/mnt/" + v.ID, nil }

func TestTake(t *testing.T) {
	for _, x := range []struct {
		name           string
		volumes        []Volume
		attached, want string // what Take does, and its folder or error
		class          fault.Class
	}{
		{"the one that is here", []Volume{{ID: "v1", Free: true}, {ID: "v2", Peer: "b", Attached: true, Machine: "i"}}, "", "/mnt/v2", ""},
		{"the first that is free", []Volume{{ID: "v3", Peer: "c", Free: true}, {ID: "v2", Peer: "b", Free: true}, {ID: "v1", Peer: "a", Machine: "other"}}, "v2", "volume v2 is being attached", fault.NotYet},
		{"none is there", nil, "", "there is none", fault.NotYet},
		{"one of another zone", []Volume{{ID: "v1", Peer: "a"}}, "", "v1 of a is elsewhere", fault.NotYet},
		{"two are here", []Volume{{ID: "v1", Attached: true}, {ID: "v2", Attached: true}}, "", "v1, v2; there must be one", fault.Permanent},
	} {
		c := &cloud{volumes: x.volumes}
		v, dir, err := Take(t.Context(), c, mounter{})
		if c.attached != x.attached || fault.Of(err) != x.class {
			t.Errorf("%s: %q is attached; %v is %q", x.name, c.attached, err, fault.Of(err))
		}
		if err == nil && (dir != x.want || v.Peer != "b") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v at %s, %v; want %s", x.name, v, dir, err, x.want)
		}
	}
}

// disk is a disk in memory with some non-zero bytes.
type disk map[int64]string

func (d disk) ReadAt(p []byte, from int64) (int, error) {
	for at, text := range d {
		for i := range len(text) {
			if n := at + int64(i) - from; n >= 0 && n < int64(len(p)) {
				p[n] = text[i]
			}
		}
	}
	return len(p), nil
}

// TestOnlyABlankDiskIsBlank matters because a blank disk is formatted.
func TestOnlyABlankDiskIsBlank(t *testing.T) {
	const size = 20 << 30
	for name, x := range map[string]struct {
		disk disk
		want string
		ok   bool
	}{
		"blank":              {nil, "", true},
		"ext4":               {disk{0x438: "\x53\xef", 0: "boot"}, ext4, true},
		"xfs":                {disk{0: "XFSB"}, xfs, true},
		"partitions":         {disk{510: "\x55\xaa"}, "", false},
		"encrypted":          {disk{0: "LUKS\xba\xbe"}, "", false},
		"LVM":                {disk{512: "LABELONE"}, "", false},
		"btrfs":              {disk{0x10040: "_BHRfS_M"}, "", false},
		"the second GPT":     {disk{size - 512: "EFI PART"}, "", false},
		"an older RAID":      {disk{size - 65536: "\xfc\x4e\x2b\xa9"}, "", false},
		"something or other": {disk{3 << 20: "x"}, "", false},
	} {
		if got, err := filesystemOf(x.disk, size); got != x.want || (err == nil) != x.ok {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := filesystemOf(disk{}, 0); err == nil {
		t.Error("a disk without a size counts as blank")
	}
}
