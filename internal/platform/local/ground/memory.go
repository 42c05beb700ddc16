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

// Where the kernel has its settings, and Forwarding among them, the one that lets the host
// pass packets on.
const (
	Sysctls    = "/proc/sys"
	Forwarding = "net/ipv4/ip_forward"
)

// Memory keeps what the host was like before the first site, until the last has gone. It
// is not of a root: the kernel is one.
type Memory struct {
	// Run is its folder for state that is valid until the host is restarted.
	Run string
	// Lives reports whether a site is there: its folder may have been removed by hand.
	Lives func(site.Site) bool
	Now   func() time.Time
}

// record is what Memory writes.
type record struct {
	Sysctls map[string]string
	Since   time.Time
	// Sites are those that have come since, of all roots.
	Sites []site.Site
}

func (m Memory) file() string { return filepath.Join(m.Run, "host.json") }

// Remember records the host's settings, unless they were recorded for another site, and
// that this one needs them.
func (m Memory) Remember(ctx context.Context, s site.Site) error {
	return m.recorded(ctx, func(r *record) error {
		if r.Sysctls == nil {
			r.Sysctls, r.Since = ReadSysctls(Sysctls), m.Now().UTC()
		}
		if !slices.Contains(r.Sites, s) {
			r.Sites = append(r.Sites, s)
		}
		return nil
	})
}

// Restore gives the host its settings back, unless another site is left.
func (m Memory) Restore(ctx context.Context, s site.Site) error {
	return m.recorded(ctx, func(r *record) error {
		r.Sites = slices.DeleteFunc(r.Sites, func(other site.Site) bool { return other == s || !m.Lives(other) })
		if len(r.Sites) > 0 || r.Sysctls == nil {
			return nil
		}
		if was := r.Sysctls[Forwarding]; was == "0" && network.Others(site.BridgePrefix) {
			delete(r.Sysctls, Forwarding) // the maker of that bridge needs it by now
		}
		return RestoreSysctls(Sysctls, r.Sysctls)
	})
}

// recorded does f with the record, which goes with its last site.
func (m Memory) recorded(ctx context.Context, f func(*record) error) error {
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
