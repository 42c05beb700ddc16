package kinds

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/local/site"
)

// Volume is a folder of the host that outlives the machines that see it. A machine
// sees it as a Folder whose Host is the volume's path. Nothing prevents two machines
// from using the same volume: give it to a group of one.
type Volume struct {
	Cluster string `res:"forbid"`
	Name    string `res:"forbid"`

	Path string `res:"out,id" out:"path"`
}

// Volumes is the kind of Volume.
var Volumes = resource.Kind[Volume, *Client]{
	Name: "local_volume", Direct: true, API: api, Tasks: []string{"Volume"},
	Key:    func(v *Volume) string { return v.Name },
	List:   listVolumes,
	Create: createVolume,
	Delete: deleteVolume,
}

func listVolumes(_ context.Context, c *Client, s resource.Scope) ([]*Volume, error) {
	here, err := c.site(s.Cluster)
	if err != nil {
		return nil, err
	}
	names, err := site.List(here.Path(site.Volumes))
	if err != nil {
		return nil, err
	}
	var out []*Volume
	for _, n := range names {
		out = append(out, &Volume{Cluster: s.Cluster, Name: n, Path: here.Path(site.Volumes, n)})
	}
	return out, nil
}

func createVolume(ctx context.Context, c *Client, v *Volume) error {
	if err := site.CheckName(v.Name); err != nil {
		return err
	}
	return c.withLock(ctx, v.Cluster, func(s site.Site) error {
		v.Path = s.Path(site.Volumes, v.Name)
		return os.MkdirAll(v.Path, 0o700)
	})
}

// deleteVolume removes the folder and its content atomically: no one sees a volume that is partly
// deleted.
func deleteVolume(ctx context.Context, c *Client, v *Volume) error {
	return c.withLock(ctx, v.Cluster, func(s site.Site) error {
		doomed := s.Path(site.Volumes, ".doomed-"+v.Name)
		err := os.Rename(s.Path(site.Volumes, v.Name), doomed)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.RemoveAll(doomed)
	})
}
