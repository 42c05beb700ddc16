package node

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/onmachine"
)

const (
	// pause is how often the API is asked for a volume: a project may send one request per second, for
	// all of its programs.
	pause = 3 * time.Second
	// Servers are listed again after remembered, or after fresh if one is missing.
	remembered, fresh = time.Minute, 10 * time.Second
)

// newVolumes returns the source of volumes.
func newVolumes(w onmachine.World, r volume.Request) volume.Source {
	out := volume.FromLabels(r, connectDisks(w, r, nil))
	out.Pause = pause
	return out
}

// connectDisks returns a function that identifies this server, and finds out where it is. wait is the
// pause between looks at an action; nil: real time.
func connectDisks(w onmachine.World, r volume.Request, wait func(context.Context, time.Duration) error) func(context.Context) (volume.Disks, volume.Place, error) {
	return func(ctx context.Context) (volume.Disks, volume.Place, error) {
		id, err := newMetadata(w).server(ctx)
		if err != nil {
			return nil, volume.Place{}, fmt.Errorf("identify this machine: %w", err)
		}
		d := &disks{world: w, request: r, self: id, wait: wait}
		api, err := d.connect()
		if err != nil {
			return nil, volume.Place{}, err
		}
		self, err := hetznerapi.Get[hetznerapi.Server](ctx, api, hetznerapi.Path("servers", id))
		if err != nil {
			return nil, volume.Place{}, fmt.Errorf("find the location of this machine: %w", err)
		}
		return d, volume.Place{Machine: number(id), Location: self.Location.Name}, nil
	}
}

// disks are the volumes of one etcd cluster.
type disks struct {
	world   onmachine.World
	request volume.Request
	self    int64 // this server
	wait    func(context.Context, time.Duration) error

	mu        sync.Mutex
	addresses map[string][]string // of the cluster's servers, by their number
	listed    time.Time
}

// connect returns a client with the current token.
func (d *disks) connect() (*hetznerapi.Client, error) {
	token, err := d.world.Secret(hetznercloud.TokenVariable)
	if err != nil {
		return nil, err
	}
	return hetznerapi.New(hetznerapi.Config{Endpoint: d.world.Env(hetznercloud.EndpointVariable), Token: token, HTTP: d.world.HTTP, UserAgent: "kops", Repeat: true, Pause: d.wait}), nil
}

// List implements volume.Disks. A server can only have the volumes of its own group, which the
// request's NameTag selects.
func (d *disks) List(ctx context.Context) ([]volume.LabelledDisk, error) {
	api, err := d.connect()
	if err != nil {
		return nil, err
	}
	found, err := hetznerapi.List[hetznerapi.Volume](ctx, api, "volumes", hetznerapi.Labelled(strings.Join(d.request.Tags, ",")))
	if err != nil {
		return nil, err
	}
	key, group, _ := strings.Cut(d.request.NameTag, "=")
	var out []volume.LabelledDisk
	for _, v := range found {
		id := number(v.ID)
		x := volume.LabelledDisk{ID: id, Place: volume.Place{Location: v.Location.Name}, Peer: "vol-" + id, IsAvailable: v.Labels[key] == group,
			Devices: []string{"/dev/disk/by-id/scsi-0HC_Volume_" + id}, Folder: "hcloud-" + id}
		if v.Server != nil {
			x.Machine = number(*v.Server)
		}
		out = append(out, x)
	}
	return out, nil
}

// Locate implements volume.Disks. All servers are in one list, which is kept for a while.
func (d *disks) Locate(ctx context.Context, attached []volume.LabelledDisk) (map[string][]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	isMissing := func(x volume.LabelledDisk) bool { _, known := d.addresses[x.Machine]; return !known }
	if age := d.world.Now().Sub(d.listed); age >= remembered || age >= fresh && slices.ContainsFunc(attached, isMissing) {
		if err := d.listServers(ctx); err != nil {
			return nil, err
		}
	}
	out := map[string][]string{}
	for _, x := range attached {
		if at := d.addresses[x.Machine]; len(at) > 0 {
			out[x.ID] = at
		}
	}
	return out, nil
}

// listServers lists the private addresses of the cluster's servers. The caller holds the lock.
func (d *disks) listServers(ctx context.Context) error {
	api, err := d.connect()
	if err != nil {
		return err
	}
	ofCluster := func(tag string) bool { return strings.HasPrefix(tag, hetznercloud.ClusterLabel+"=") }
	i := slices.IndexFunc(d.request.Tags, ofCluster)
	if i < 0 {
		return fmt.Errorf("no volume tag is %s=CLUSTER", hetznercloud.ClusterLabel)
	}
	found, err := hetznerapi.List[hetznerapi.Server](ctx, api, "servers", hetznerapi.Labelled(d.request.Tags[i]))
	if err != nil {
		return err
	}
	d.addresses, d.listed = map[string][]string{}, d.world.Now()
	for _, s := range found {
		for _, n := range s.PrivateNet {
			d.addresses[number(s.ID)] = append(d.addresses[number(s.ID)], n.IP)
		}
	}
	return nil
}

// Attach implements volume.Disks.
func (d *disks) Attach(ctx context.Context, id string) error {
	api, err := d.connect()
	if err == nil {
		err = api.Act(ctx, "volumes/"+id, "attach", map[string]any{"server": d.self, "automount": false})
	}
	if err != nil {
		return fmt.Errorf("attach the volume %s: %w", id, err)
	}
	return nil
}

func number(id int64) string { return strconv.FormatInt(id, 10) }
