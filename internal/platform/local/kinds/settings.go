package kinds

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/keeper"
	bridges "kops.local/kops/internal/platform/local/network"
	"kops.local/kops/internal/platform/local/site"
)

// sysctls is where the kernel has its settings, forwarding the one that lets
// machines reach the world.
const (
	sysctls    = "/proc/sys"
	forwarding = "net/ipv4/ip_forward"
)

// record is what the host was like before the first cluster.
type record struct {
	Sysctls map[string]string
	Since   time.Time
	// Sites are the clusters that have come since, of all roots.
	Sites []site.Site
}

func (c *Client) recordFile() string { return filepath.Join(c.Run, "host.json") }

// remember records the host's settings, unless another cluster did, and that
// this one needs them.
func (c *Client) remember(ctx context.Context, s site.Site) error {
	return c.recorded(ctx, func(r *record) error {
		if r.Sysctls == nil {
			r.Sysctls, r.Since = ground.ReadSysctls(sysctls), c.Now().UTC()
		}
		if !slices.Contains(r.Sites, s) {
			r.Sites = append(r.Sites, s)
		}
		return nil
	})
}

// restore gives the host its settings back, unless another cluster is left.
func (c *Client) restore(ctx context.Context, s site.Site) error {
	return c.recorded(ctx, func(r *record) error {
		var left []site.Site
		for _, other := range r.Sites {
			// The folder of a cluster that is gone may have been removed by hand.
			if _, err := os.Stat(keeper.NetworkFile(other)); err == nil && other != s {
				left = append(left, other)
			}
		}
		if r.Sites = left; len(left) > 0 || r.Sysctls == nil {
			return nil
		}
		if was := r.Sysctls[forwarding]; was == "0" && bridges.Others(site.BridgePrefix) {
			delete(r.Sysctls, forwarding) // whoever made that bridge needs it by now
		}
		return ground.RestoreSysctls(sysctls, r.Sysctls)
	})
}

// recorded does f with the record, which goes with its last cluster. It is not of
// a root: the kernel is one.
func (c *Client) recorded(ctx context.Context, f func(*record) error) error {
	unlock, err := site.Site{Root: c.Run}.LockRoot(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var r record
	if _, err := site.ReadJSON(c.recordFile(), &r); err != nil {
		return err
	}
	if err := f(&r); err != nil {
		return err
	}
	if len(r.Sites) == 0 {
		return keeper.Remove(c.recordFile())
	}
	return site.WriteJSON(c.recordFile(), r)
}
