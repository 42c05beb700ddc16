package hetzner

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/hetzner/spec"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/test/cloudsuite"
	"kops.local/kops/internal/test/joinsuite"
	"kops.local/kops/internal/test/proxy"
	"kops.local/kops/internal/test/sandbox"
)

const bucket, token = "state-store", "0123456789012345678901234567890123456789012345678901234567890123"

func TestMain(m *testing.M) { cloudsuite.Main(m) }

// TestMachinesJoin: a control plane finds the keys of the store in its user data, and the token in the
// store; a worker joins once kops-controller can call it at its address.
func TestMachinesJoin(t *testing.T) {
	joinsuite.Run(t, func(t *testing.T) *joinsuite.Cloud {
		p := newProject(t)
		return &joinsuite.Cloud{Cloud: &cloudsuite.Cloud{Platform: spec.Platform(), Open: p.open, Zones: []string{"fsn1", "nbg1", "hel1"}},
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

// project is an emulated project.
type project struct {
	*testing.T
	*emulator.Emulator
}

func newProject(t *testing.T) *project {
	t.Helper()
	e, err := emulator.New(emulator.Options{Token: token, Latency: 20 * time.Millisecond, Boot: 50 * time.Millisecond, OnBug: func(err error) { t.Errorf("the emulator: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	return &project{t, e}
}

// open returns the project as an account with a state store, which knows its users by their keys.
func (p *project) open(t testing.TB) cloudsuite.Account {
	objects := awstest.Versity(t)
	objects.Bucket(t, bucket)
	state, err := store.Backends{s3.Compatible(objects.S3())}.Open(t.Context(), "hos://"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	via := proxy.New(t, server.URL, func(r *http.Request, _ []byte) proxy.Call { return proxy.Call{Name: r.Method} })
	return cloudsuite.Account{Proxy: via, Store: state, Objects: p.Inventory, Env: map[string]string{"KOPS_STATE_STORE": "hos://" + bucket,
		hetznercloud.TokenVariable: token, hetznercloud.EndpointVariable: via.URL + emulator.Base,
		"S3_ENDPOINT": objects.URL, "S3_ACCESS_KEY_ID": objects.AccessKey, "S3_SECRET_ACCESS_KEY": objects.SecretKey}}
}

// server returns the server of a machine.
func (p *project) server(m platform.Machine) emulator.Server {
	p.Helper()
	for _, s := range p.Servers() {
		if s.Name == m.Name {
			return s
		}
	}
	p.Fatalf("there is no server %s", m.Name)
	return emulator.Server{}
}
