package node

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/platform/rest"
)

// newVolumes returns the source of persistent disks.
func newVolumes(w onmachine.World, r volume.Request) volume.Source {
	return volume.FromLabels(r, connectDisks(w, r))
}

// connectDisks returns a function that identifies this machine, and the zones of its region, starting
// with its own.
func connectDisks(w onmachine.World, r volume.Request) func(context.Context) (volume.Disks, volume.Place, error) {
	return func(ctx context.Context) (volume.Disks, volume.Place, error) {
		self, err := gcerest.NewMetadata(w.Env, w.Direct).Machine(ctx)
		if err != nil {
			return nil, volume.Place{}, fmt.Errorf("identify this machine: %w", err)
		}
		api := gcerest.New(w.Env, w.HTTP, w.Direct, w.Now)
		zones, err := api.Zones(ctx, self.Project, gcerest.RegionOf(self.Zone))
		if err != nil {
			return nil, volume.Place{}, fmt.Errorf("list the zones: %w", err)
		}
		others := slices.DeleteFunc(zones, func(z string) bool { return z == self.Zone })
		return disks{api, r, self, append([]string{self.Zone}, others...)}, volume.Place{Machine: self.Name, Location: self.Zone}, nil
	}
}

// disks are the disks of one etcd cluster.
type disks struct {
	api     gcerest.Client
	request volume.Request
	self    gcerest.Machine // this machine
	zones   []string
}

// disk holds the fields of a disk that are used.
type disk struct {
	Name   string            `json:"name"`
	Status string            `json:"status"`
	Labels map[string]string `json:"labels"`
	Users  []string          `json:"users"` // URLs of the instances to which it is attached
}

// List implements volume.Disks. If another zone does not respond, only its disks are missing.
func (d disks) List(ctx context.Context) ([]volume.LabelledDisk, error) {
	var out []volume.LabelledDisk
	for _, zone := range d.zones {
		found, err := gcerest.List[disk](ctx, d.api, gcerest.Compute, rest.Request{Path: gcerest.ZonePath(d.self.Project, zone) + "/disks", Query: url.Values{"filter": {d.filter()}}}, "items")
		if zone != d.self.Zone && fault.Is(err, fault.NotYet) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the disks of etcd in %s: %w", zone, err)
		}
		for _, x := range found {
			out = append(out, d.labelled(zone, x))
		}
	}
	return out, nil
}

// filter selects disks by their labels: KEY=VALUE, or KEY for any value.
func (d disks) filter() string {
	var out []string
	for _, tag := range d.request.Tags {
		if !strings.Contains(tag, "=") {
			tag += ":*"
		}
		out = append(out, "labels."+tag)
	}
	return strings.Join(out, " AND ")
}

func (d disks) labelled(zone string, x disk) volume.LabelledDisk {
	out := volume.LabelledDisk{ID: zone + "-" + x.Name, Place: volume.Place{Location: zone}, Name: decode(x.Labels[d.request.NameTag]), IsAvailable: x.Status == "READY",
		Devices: []string{"/dev/disk/by-id/google-" + x.Name}}
	if len(x.Users) > 0 {
		out.Machine = gcerest.BaseName(x.Users[0])
	}
	return out
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

// Locate implements volume.Disks.
func (d disks) Locate(ctx context.Context, attached []volume.LabelledDisk) (map[string][]string, error) {
	out := map[string][]string{}
	for _, x := range attached {
		var i gcerest.Instance
		err := d.api.Get(ctx, gcerest.Compute, gcerest.InstancePath(d.self.Project, x.Location, x.Machine), nil, &i)
		if fault.Is(err, fault.Gone) || x.Location != d.self.Zone && fault.Is(err, fault.NotYet) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find the machine %s of a disk of etcd: %w", x.Machine, err)
		}
		out[x.ID] = i.Addresses()
	}
	return out, nil
}

// Attach implements volume.Disks.
func (d disks) Attach(ctx context.Context, id string) error {
	zone, name := gcerest.ZonePath(d.self.Project, d.self.Zone), strings.TrimPrefix(id, d.self.Zone+"-")
	err := d.api.DoAndWait(ctx, zone, rest.Request{Method: http.MethodPost, Path: "instances/" + d.self.Name + "/attachDisk", Body: map[string]string{
		"source": zone + "/disks/" + name, "deviceName": name, "mode": "READ_WRITE", "type": "PERSISTENT"}})
	if err != nil {
		return fmt.Errorf("attach the disk %s: %w", name, err)
	}
	return nil
}
