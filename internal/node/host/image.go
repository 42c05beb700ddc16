package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Image is a container image that is available before a pod needs it.
type Image struct {
	// Name is the full name, including the registry.
	Name string `res:"forbid"`
	// Archive is the file in the cache that contains the image; empty if it is pulled.
	Archive string `res:"writeonly"`
}

// Images is the kind of Image. An image that cannot be pulled is only a warning: the kubelet pulls it
// when a pod needs it, and only the kubelet can log in to registries. One that cannot be imported is
// an error, because it cannot be pulled either. In a folder, where no program is run, every image
// counts as present.
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
	if i.Archive != "" {
		return importImage(ctx, m, i)
	}
	_, err := m.ctr(ctx, "images", "pull", "--hosts-dir", "/etc/containerd/certs.d", i.Name)
	if err != nil && ctx.Err() == nil {
		m.warn("the image " + i.Name + " was not pulled in advance: " + err.Error())
		return nil
	}
	return err
}

// importImage imports an image from its archive. The kubelet, which removes unused
// images, keeps this one: it could not be pulled again.
func importImage(ctx context.Context, m *Machine, i *Image) error {
	if m.Command == nil {
		return nil
	}
	if _, err := m.ctr(ctx, "images", "import", m.cached(i.Archive)); err != nil {
		return fault.Wrap(fault.NotYet, fmt.Errorf("import the image %s: %w", i.Name, err), "check that containerd runs: journalctl --unit=containerd.service")
	}
	if _, err := m.ctr(ctx, "images", "label", i.Name, "io.cri-containerd.pinned=pinned"); err != nil {
		return fault.Wrap(fault.Permanent, fmt.Errorf("keep the image %s: %w", i.Name, err), "the archive contains a different image than its name says; run kops update cluster --yes and replace the machine")
	}
	return nil
}
