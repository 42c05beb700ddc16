package host

import (
	"context"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/resource"
)

// Image is a container image that is pulled before a pod needs it.
type Image struct {
	// Name is whole, with its registry.
	Name string `res:"forbid"`
}

// Images is the kind of Image. An image that cannot be pulled is only a warning: the
// kubelet pulls it when a pod needs it, and it alone can log in to registries. In a
// folder, where no program is run, every image counts as present.
var Images = resource.Kind[Image, *Machine]{
	Name: "host_image", API: "images", Direct: true,
	Key: func(i *Image) string { return i.Name }, List: listImages, Create: pullImage,
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

func pullImage(ctx context.Context, m *Machine, i *Image) error {
	_, err := m.ctr(ctx, "images", "pull", "--hosts-dir", "/etc/containerd/certs.d", i.Name)
	if err != nil && ctx.Err() == nil {
		m.warn("the image " + i.Name + " was not pulled ahead: " + err.Error())
		return nil
	}
	return err
}
