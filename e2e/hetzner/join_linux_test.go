package hetzner

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/hetzner/spec"
	"kops.local/kops/internal/test/cloudsuite"
	"kops.local/kops/internal/test/joinsuite"
	"kops.local/kops/internal/test/sandbox"
)

// TestMachinesJoin: a control plane finds the keys of the store in its user data, and the token in the
// store; a worker joins once kops-controller can call it at its address.
func TestMachinesJoin(t *testing.T) {
	joinsuite.Run(t, func(t *testing.T) *joinsuite.Cloud {
		p := newProject(t)
		return &joinsuite.Cloud{Cloud: &cloudsuite.Cloud{Platform: spec.Platform(), Open: p.open, Zones: []string{location}},
			Owns:     func(host string) bool { return host == "api.hetzner.cloud" },
			API:      func(*cloudsuite.World) http.Handler { return p },
			Metadata: func(_ *cloudsuite.World, m platform.Machine) http.Handler { return p.Metadata(m.Name) },
			Elsewhere: func(at string) map[string]string { // and what the pod has from a Secret
				return map[string]string{hetznercloud.MetadataVariable: at + "/hetzner/v1", hetznercloud.TokenVariable: token}
			},
			Script: func(_ *cloudsuite.World, m platform.Machine) string { return p.server(m).UserData },
			Identify: func(_ *cloudsuite.World, m platform.Machine, _ string) {
				sandbox.AddAddress(t, p.server(m).Networks[0].Address.String())
			},
			Devices: func(_ *cloudsuite.World, m platform.Machine) []string {
				var out []string
				for _, v := range p.server(m).Volumes {
					out = append(out, v.Device)
				}
				return out
			},
			Peer: func(_ *cloudsuite.World, m platform.Machine) string {
				for _, v := range p.server(m).Volumes {
					if strings.Contains(v.Name, ".etcd-main.") {
						return "vol-" + strconv.FormatInt(v.ID, 10)
					}
				}
				return ""
			},
			ProviderID: func(m platform.Machine) string {
				return hetznercloud.ProviderPrefix + strconv.FormatInt(p.server(m).ID, 10)
			},
		}
	})
}
