package host

import (
	"context"
	"slices"
	"strings"

	"kops.local/kops/internal/fault"
	"kops.local/kops/internal/resource"
)

// Image is a container image in containerd's store.
type Image struct {
	Name string `res:"forbid"`
	// Asset is the File of the Asset that holds the image; empty: it is pulled.
	Asset string `res:"writeonly"`
}

// Images is the kind of Image. In a folder, where no program is run, every image counts as present.
var Images = resource.Kind[Image, *Machine]{
	Name: "host_image", API: "images", Direct: true,
	Key: func(i *Image) string { return i.Name }, List: listImages, Create: loadImage,
	Delete: func(ctx context.Context, m *Machine, i *Image) error {
		if m.Command == nil {
			return nil
		}
		_, err := m.ctr(ctx, "images", "rm", i.Name)
		return err
	},
}

func (m *Machine) ctr(ctx context.Context, args ...string) ([]byte, error) {
	return m.Command(ctx, "ctr", append([]string{"--namespace", "k8s.io"}, args...)...)
}

func listImages(ctx context.Context, m *Machine, s resource.Scope) ([]*Image, error) {
	if len(s.Names) == 0 {
		return nil, nil
	}
	var have []string
	if m.Command != nil {
		text, err := m.ctr(ctx, "images", "ls", "--quiet")
		if err != nil {
			return nil, nil //nolint:nilerr // containerd does not run yet, so there are none
		}
		have = strings.Fields(string(text))
	}
	var out []*Image
	for _, name := range s.Names {
		if m.Command == nil || slices.Contains(have, name) {
			out = append(out, &Image{Name: name})
		}
	}
	return out, nil
}

func loadImage(ctx context.Context, m *Machine, i *Image) error {
	if i.Asset != "" {
		_, err := m.ctr(ctx, "images", "import", m.path(m.cached(i.Asset)))
		return err
	}
	if _, err := m.ctr(ctx, "images", "pull", "--hosts-dir", "/etc/containerd/certs.d", i.Name); err != nil {
		return fault.Wrap(fault.NotYet, err, "make the image's registry reachable from the machine, or name a mirror in spec.containerd.registryMirrors")
	}
	return nil
}
