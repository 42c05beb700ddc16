package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/backup"
	"kops.local/kops/internal/node/etcd/peer"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/open"
	"kops.local/kops/internal/store/s3/sdkchain"
)

const (
	// rootfs is where a container sees the files of its machine.
	rootfs = "/rootfs"
	// maxLabel is the maximum length of a label of a host name, in bytes (RFC 1035).
	maxLabel = 63
)

// place is the identity and location of this peer.
type place struct {
	id, dir, address string
	host             string // name or address for URLs
}

// host returns a path on the machine as this program sees it.
func (o Options) host(path string) string {
	if o.Containerized {
		return filepath.Join(rootfs, path)
	}
	return path
}

// place finds the member's disk, which determines this peer's identity.
func (o Options) place(ctx context.Context, from volume.Source) (place, error) {
	d, err := from.Disk(ctx)
	if err != nil {
		return place{}, err
	}
	p := place{dir: d.Dir, id: cmp.Or(o.PeerID, d.Peer), address: cmp.Or(o.Address, d.Address)}
	if p.id == "" {
		if p.id, err = myID(p.dir, o.Cluster); err != nil {
			return place{}, err
		}
	}
	if p.address == "" {
		if p.address, err = o.ownAddress(from); err != nil {
			return place{}, err
		}
	}
	p.host = p.address
	if o.DNSSuffix != "" {
		p.host = p.id + o.DNSSuffix
	} else if strings.Contains(p.host, ":") {
		p.host = "[" + p.host + "]"
	}
	if label, _, _ := strings.Cut(p.host, "."); o.DNSSuffix != "" && len(label) > maxLabel {
		return place{}, fault.Wrap(fault.Permanent, fmt.Errorf("the name of this peer, %s, is longer than the %d characters that a host name may have", label, maxLabel),
			"use a shorter name for the cluster, or for the group of this machine")
	}
	return p, nil
}

// name inserts the host's name into URLs.
func (p place) name(urls []string) []string {
	out := make([]string, len(urls))
	for i, u := range urls {
		out[i] = strings.ReplaceAll(u, "__name__", p.host)
	}
	return out
}

// myID returns the name in DIR/myid, and generates one if there is none.
func myID(dir, cluster string) (string, error) {
	path := filepath.Join(dir, "myid")
	text, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(text))) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the name of this peer: %w", err)
	}
	raw := make([]byte, 4)
	_, _ = rand.Read(raw) // it never fails
	id := cluster + "-" + hex.EncodeToString(raw)
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = os.WriteFile(path, []byte(id+"\n"), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("write the name of this peer: %w", err)
	}
	return id, nil
}

// source returns where the disk of the member is.
func (o Options) source(log *slog.Logger) (volume.Source, error) {
	r := volume.Request{Cluster: o.Cluster, Tags: o.VolumeTags, NameTag: o.NameTag, Disks: o.host(o.Disks), Machines: o.host(o.Machines), Port: strconv.Itoa(o.Port),
		Mounter: volume.Host{Root: o.host("/"), Log: log}}
	var known []string
	for _, p := range o.Platforms {
		switch {
		case p.Volumes == nil:
		case p.HasVolumesOf(o.VolumeProvider):
			return p.Volumes(o.world(), r), nil
		default:
			known = append(known, cmp.Or(p.VolumeProvider, p.Name))
		}
	}
	switch o.VolumeProvider {
	case "":
		return volume.Source{Disk: func(context.Context) (volume.Disk, error) {
			return volume.Disk{Dir: cmp.Or(o.DataDir, o.host("/var/lib/"+o.Cluster))}, nil
		}}, nil
	case "external":
		return volume.Source{Disk: func(context.Context) (volume.Disk, error) {
			dir, err := r.Folder()
			return volume.Disk{Dir: dir, Peer: filepath.Base(dir)}, err
		}}, nil
	}
	return volume.Source{}, fault.Wrap(fault.Permanent, fmt.Errorf("the volume provider %q is not known", o.VolumeProvider),
		"use "+strings.Join(known, ", ")+", external, or no volume provider and --data-dir")
}

// world returns what a platform needs from this program.
func (o Options) world() onmachine.World {
	direct := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // net/http guarantees the type
	direct.Proxy = nil
	return onmachine.World{Root: o.host("/"), Env: func(name string) string { return o.Environment[name] }, HTTP: http.DefaultClient, Direct: &http.Client{Transport: direct},
		Hostname: os.Hostname, Now: time.Now, Rand: rand.Reader}
}

// ownAddress returns the address at which others reach this machine.
func (o Options) ownAddress(from volume.Source) (string, error) {
	if from.Address != nil {
		return from.Address()
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("find the address of this machine: %w", err)
	}
	return reachableAddress(all, o.NetworkCIDR)
}

// reachableAddress returns the first address that others can reach, within a network if one is given.
func reachableAddress(all []net.Addr, network string) (string, error) {
	var within *net.IPNet
	if network != "" {
		_, n, err := net.ParseCIDR(network)
		if err != nil {
			return "", fmt.Errorf("--network-cidr: %w", err)
		}
		within = n
	}
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if ok && n.IP.IsGlobalUnicast() && (within == nil || within.Contains(n.IP)) {
			return n.IP.String(), nil
		}
	}
	return "", errors.New("this machine has no address that others can reach; set it with --address")
}

// archive opens the backup store; shared is nil unless the store is on one of the machines.
func (o Options) archive(ctx context.Context, p place, from volume.Source, trust peer.TLS) (a *backup.Archive, shared *peer.Shared, err error) {
	url := o.BackupStore
	path, folder := strings.CutPrefix(url, "file://")
	if folder {
		url = "file://" + o.host(path)
	}
	s, err := o.stores().Open(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	if folder && from.Home != nil {
		shared = peer.Share(s, trust, func() (string, bool, error) {
			home, err := from.Home()
			return net.JoinHostPort(home, strconv.Itoa(o.Port)), home == p.address, err
		})
		s = shared
	}
	return &backup.Archive{Store: etcd.Guard(s), Retention: o.Retention, Now: time.Now}, shared, nil
}

// stores returns the stores that can hold backups. Without other credentials, the
// machine's role is used.
func (o Options) stores() store.Backends {
	w := o.world()
	return onmachine.Stores(o.Platforms, w, open.Options{Env: w.Env, Account: sdkchain.Credentials{}})
}
