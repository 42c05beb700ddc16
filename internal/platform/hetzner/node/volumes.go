package node

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/onmachine"
)

// pause is how often the API is asked for a volume: a project may send one request per second, for all of
// its programs.
const pause = 3 * time.Second

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
		d.Load, d.Now = d.addresses, w.Now
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
	volume.Addresses
	world   onmachine.World
	request volume.Request
	self    int64 // this server
	wait    func(context.Context, time.Duration) error
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

// addresses returns the private addresses of the cluster's servers.
func (d *disks) addresses(ctx context.Context) (map[string][]string, error) {
	api, err := d.connect()
	if err != nil {
		return nil, err
	}
	ofCluster := func(tag string) bool { return strings.HasPrefix(tag, hetznercloud.ClusterLabel+"=") }
	i := slices.IndexFunc(d.request.Tags, ofCluster)
	if i < 0 {
		return nil, fmt.Errorf("no volume tag is %s=CLUSTER", hetznercloud.ClusterLabel)
	}
	found, err := hetznerapi.List[hetznerapi.Server](ctx, api, "servers", hetznerapi.Labelled(d.request.Tags[i]))
	out := map[string][]string{}
	for _, s := range found {
		out[number(s.ID)] = s.PrivateAddresses()
	}
	return out, err
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
