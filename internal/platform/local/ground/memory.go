package ground

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"kops.local/kops/internal/platform/local/network"
	"kops.local/kops/internal/platform/local/site"
)

// Sysctls is the folder of the kernel's settings; Forwarding is the one that lets the host
// forward packets.
const (
	Sysctls    = "/proc/sys"
	Forwarding = "net/ipv4/ip_forward"
)

// HostState keeps the host's settings from before the first site until the last is removed.
// It spans all roots, because they share one kernel.
type HostState struct {
	// Run is the folder for state that is valid until the host is restarted.
	Run string
	// IsAlive reports whether a site still exists: its folder may have been removed by hand.
	IsAlive func(site.Site) bool
	Now     func() time.Time
}

// record is what HostState writes.
type record struct {
	Sysctls map[string]string
	Since   time.Time
	// Sites are the sites of all roots that have registered since.
	Sites []site.Site
}

func (m HostState) file() string { return filepath.Join(m.Run, "host.json") }

// Remember records the host's settings, unless they were already recorded for another
// site, and registers this site.
func (m HostState) Remember(ctx context.Context, s site.Site) error {
	return m.updateRecord(ctx, func(r *record) error {
		if r.Sysctls == nil {
			r.Sysctls, r.Since = ReadSysctls(Sysctls), m.Now().UTC()
		}
		if !slices.Contains(r.Sites, s) {
			r.Sites = append(r.Sites, s)
		}
		return nil
	})
}

// Restore restores the host's settings, unless another site is left.
func (m HostState) Restore(ctx context.Context, s site.Site) error {
	return m.updateRecord(ctx, func(r *record) error {
		r.Sites = slices.DeleteFunc(r.Sites, func(other site.Site) bool { return other == s || !m.IsAlive(other) })
		if len(r.Sites) > 0 || r.Sysctls == nil {
			return nil
		}
		if was := r.Sysctls[Forwarding]; was == "0" && network.HasOtherBridges(site.BridgePrefix) {
			delete(r.Sysctls, Forwarding) // whoever created that bridge needs it by now
		}
		return RestoreSysctls(Sysctls, r.Sysctls)
	})
}

// updateRecord calls f with the record, which is deleted with its last site.
func (m HostState) updateRecord(ctx context.Context, f func(*record) error) error {
	unlock, err := site.Site{Root: m.Run}.LockRoot(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var r record
	if _, err := site.ReadJSON(m.file(), &r); err != nil {
		return err
	}
	if err := f(&r); err != nil {
		return err
	}
	if len(r.Sites) > 0 {
		return site.WriteJSON(m.file(), r)
	}
	if err := os.Remove(m.file()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
