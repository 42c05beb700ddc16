// Package hetznertest provides tests of a cluster's machines with a project that an emulator serves: a
// network, servers, their metadata, and volumes of etcd.
//
// It must not know what a machine does.
package hetznertest

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/platform/hetzner/emulator/emulatortest"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/standin/standintest"
)

// Cluster is the cluster of the servers, unless a test says otherwise.
const Cluster = "c.example.com"

// Token is the project's token.
const Token = "the-token-of-the-project"

// Project is an emulated project.
type Project struct {
	testing.TB
	*emulatortest.Cloud
	API     *hetznerapi.Client
	Network int64
}

// Start runs a project with a network until the test ends.
func Start(t testing.TB) *Project {
	t.Helper()
	p := &Project{TB: t, Cloud: emulatortest.Start(t, emulator.Options{Token: Token})}
	p.API = hetznerapi.New(hetznerapi.Config{Endpoint: p.URL, Token: Token, HTTP: p.HTTP, Pause: p.Clock.Sleep})
	n := create[hetznerapi.Network](p, "networks", map[string]any{"name": "n", "ip_range": "10.0.0.0/16",
		"subnets": []map[string]any{{"type": "cloud", "network_zone": "eu-central", "ip_range": "10.0.0.0/16"}}})
	p.Network = n.ID
	return p
}

func create[T any](p *Project, kind string, body any) T {
	p.Helper()
	out, err := hetznerapi.Create[T](p.Context(), p.API, kind, body)
	if err != nil {
		p.Fatal(err)
	}
	return out
}

// Server creates a server of a group, and returns its number; more replaces fields of the request.
func (p *Project) Server(name, group string, more map[string]any) int64 {
	p.Helper()
	body := map[string]any{"name": name, "server_type": "cx23", "image": "ubuntu-24.04", "location": "fsn1", "networks": []int64{p.Network}, "user_data": "#!/bin/sh\n",
		"labels": map[string]string{hetznercloud.ClusterLabel: Cluster, hetznercloud.GroupLabel: group, hetznercloud.RoleLabel: string(api.RoleNode)}}
	for k, v := range more {
		body[k] = v
	}
	return create[hetznerapi.Server](p, "servers", body).ID
}

// Volume creates a volume of the etcd cluster main for a group, and returns its number.
func (p *Project) Volume(name, group, location string) int64 {
	p.Helper()
	return create[hetznerapi.Volume](p, "volumes", map[string]any{"name": name, "size": 20, "location": location,
		"labels": map[string]string{hetznercloud.ClusterLabel: Cluster, hetznercloud.GroupLabel: group, hetznercloud.VolumeLabel: "main"}}).ID
}

// Get reads the object at a path.
func Get[T any](p *Project, kind string, id int64) T {
	p.Helper()
	out, err := hetznerapi.Get[T](p.Context(), p.API, hetznerapi.Path(kind, id))
	if err != nil {
		p.Fatal(err)
	}
	return out
}

// Machine returns the world of a server that is a control plane.
func (p *Project) Machine(name string) onmachine.World {
	p.Helper()
	root := p.TempDir()
	file := filepath.Join(root, paths.PlatformSecrets, hetznercloud.TokenVariable)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(Token), 0o600); err != nil {
		p.Fatal(err)
	}
	env := map[string]string{hetznercloud.EndpointVariable: p.URL, hetznercloud.MetadataVariable: standintest.Serve(p, p.Metadata(name)) + "/hetzner/v1"}
	return onmachine.World{Root: root, Env: func(name string) string { return env[name] }, HTTP: p.HTTP, Direct: http.DefaultClient, Now: p.Clock.Now}
}
