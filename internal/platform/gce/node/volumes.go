package node

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/platform/rest"
)

// newVolumes returns the source of persistent disks.
func newVolumes(w onmachine.World, r volume.Request) volume.Source {
	return volume.Attached(newDisks(w, r), r)
}

func newDisks(w onmachine.World, r volume.Request) *disks {
	return &disks{api: gcerest.New(w.Env, w.HTTP, w.Direct, w.Now), metadata: gcerest.NewMetadata(w.Env, w.Direct), request: r}
}

// disks are the disks of one etcd cluster, in the zones of the machine's region. They implement
// volume.Cloud.
type disks struct {
	api      gcerest.Client
	metadata gcerest.Metadata
	request  volume.Request

	mu    sync.Mutex
	self  gcerest.Machine // this machine; read once
	zones []string
}

// disk holds the fields of a disk that are used.
type disk struct {
	Name   string            `json:"name"`
	Status string            `json:"status"`
	Labels map[string]string `json:"labels"`
	Users  []string          `json:"users"` // URLs of the instances to which it is attached
}

// locateMachine identifies this machine, and the zones of its region, starting with its own.
func (d *disks) locateMachine(ctx context.Context) (gcerest.Machine, []string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.zones) > 0 {
		return d.self, d.zones, nil
	}
	self, err := d.metadata.Machine(ctx)
	if err != nil {
		return self, nil, fmt.Errorf("identify this machine: %w", err)
	}
	zones, err := d.api.Zones(ctx, self.Project, gcerest.RegionOf(self.Zone))
	if err != nil {
		return self, nil, fmt.Errorf("list the zones: %w", err)
	}
	others := slices.DeleteFunc(zones, func(z string) bool { return z == self.Zone })
	d.self, d.zones = self, append([]string{self.Zone}, others...)
	return d.self, d.zones, nil
}

// Volumes implements volume.Cloud. If another zone does not respond, only its disks are missing.
func (d *disks) Volumes(ctx context.Context) ([]volume.Volume, error) {
	if len(d.request.Tags) == 0 || d.request.NameTag == "" { // would match every disk of the project
		return nil, fault.New(fault.Permanent, "disks are found by --volume-tag and named by --volume-name-tag")
	}
	self, zones, err := d.locateMachine(ctx)
	if err != nil {
		return nil, err
	}
	var out []volume.Volume
	for _, zone := range zones {
		found, err := gcerest.List[disk](ctx, d.api, gcerest.Compute, rest.Request{Path: gcerest.ZonePath(self.Project, zone) + "/disks", Query: url.Values{"filter": {d.filter()}}}, "items")
		if zone != self.Zone && fault.Is(err, fault.NotYet) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the disks of etcd in %s: %w", zone, err)
		}
		for _, x := range found {
			v := d.volume(self, zone, x)
			if v.Addresses, err = d.addresses(ctx, self, zone, v.Machine); err != nil {
				return nil, err
			}
			out = append(out, v)
		}
	}
	return out, nil
}

// filter selects disks by their labels: KEY=VALUE, or KEY for any value.
func (d *disks) filter() string {
	var out []string
	for _, tag := range d.request.Tags {
		if !strings.Contains(tag, "=") {
			tag += ":*"
		}
		out = append(out, "labels."+tag)
	}
	return strings.Join(out, " AND ")
}

func (d *disks) volume(self gcerest.Machine, zone string, x disk) volume.Volume {
	v := volume.Volume{ID: zone + "-" + x.Name, Devices: []string{"/dev/disk/by-id/google-" + x.Name}}
	if member, _, _ := strings.Cut(decode(x.Labels[d.request.NameTag]), "/"); member != "" {
		v.Peer = d.request.Cluster + "-" + member
	}
	if len(x.Users) > 0 {
		v.Machine = gcerest.BaseName(x.Users[0])
		v.Attached = zone == self.Zone && v.Machine == self.Name
	}
	v.Free = v.Machine == "" && x.Status == "READY" && zone == self.Zone
	return v
}

// decode decodes a label value, in which a byte that labels cannot contain is written as -XX, in
// hexadecimal.
func decode(label string) string {
	text, err := url.QueryUnescape(strings.ReplaceAll(label, "-", "%"))
	if err != nil {
		return ""
	}
	return text
}

// addresses returns the addresses of a machine in a zone; nil if it is gone.
func (d *disks) addresses(ctx context.Context, self gcerest.Machine, zone, machine string) ([]string, error) {
	if machine == "" {
		return nil, nil
	}
	var i gcerest.Instance
	err := d.api.Get(ctx, gcerest.Compute, gcerest.InstancePath(self.Project, zone, machine), nil, &i)
	if fault.Is(err, fault.Gone) || zone != self.Zone && fault.Is(err, fault.NotYet) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the machine %s of a disk of etcd: %w", machine, err)
	}
	return i.Addresses(), nil
}

// Attach implements volume.Cloud.
func (d *disks) Attach(ctx context.Context, v volume.Volume) error {
	self, _, err := d.locateMachine(ctx)
	if err != nil {
		return err
	}
	zone, name := gcerest.ZonePath(self.Project, self.Zone), strings.TrimPrefix(v.ID, self.Zone+"-")
	err = d.api.DoAndWait(ctx, zone, rest.Request{Method: http.MethodPost, Path: "instances/" + self.Name + "/attachDisk", Body: map[string]string{
		"source": zone + "/disks/" + name, "deviceName": name, "mode": "READ_WRITE", "type": "PERSISTENT"}})
	if err != nil {
		return fmt.Errorf("attach the disk %s: %w", name, err)
	}
	return nil
}
