package model_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
)

// The user data reports what a machine was started with, in every encoding.
func TestUserDataContainsTheConfigurationOfAMachine(t *testing.T) {
	in := input(t, golden+"irsa")
	g := group(t, in, api.RoleNode)
	plain := script(t, in, g, resource.Value{})
	boot := bootConfig(t, plain)
	if boot.NodeupConfigHash == "" {
		t.Fatal("the machine knows no hash")
	}
	with := func(change func(*api.InstanceGroupSpec)) string {
		t.Helper()
		changed := *g
		change(&changed.Spec)
		return script(t, in, &changed, resource.Value{})
	}
	added := func(text string) string {
		return with(func(s *api.InstanceGroupSpec) {
			s.AdditionalUserData = []api.UserData{{Name: "motd.sh", Type: "text/x-shellscript", Content: text}}
		})
	}
	moved := in
	moved.Region = "us-test-2"
	elsewhere := script(t, moved, g, resource.Value{})
	for _, c := range []struct {
		name, have, want string
		changes          []string // fields
	}{
		{"equal", plain, plain, nil},
		{"compressed", with(func(s *api.InstanceGroupSpec) { s.CompressUserData = ptr(true) }), plain, nil},
		{"parts", added("echo a"), added("echo a"), nil},
		{"another part", added("echo a"), added("echo b"), []string{"spec.additionalUserData"}},
		{"a part more", plain, added("echo b"), []string{"spec.additionalUserData"}},
		{"the environment", plain, elsewhere, []string{"boot script"}},
		{"not ours", plain, "#!/bin/sh\n", []string{"addresses of the API", "keypair kubernetes-ca", "nodeup", "boot script", "spec.additionalUserData"}},
	} {
		got := platform.CompareUserData(c.have, c.want)
		var fields []string
		for _, d := range got.Changes {
			fields = append(fields, d.Field)
			if d.Have == d.Want {
				t.Errorf("%s: %+v is no change", c.name, d)
			}
		}
		if got.Config != boot.NodeupConfigHash {
			t.Errorf("%s: hash %q, want %q", c.name, got.Config, boot.NodeupConfigHash)
		}
		if d := cmp.Diff(c.changes, fields); d != "" {
			t.Errorf("%s: %s\n%+v", c.name, d, got.Changes)
		}
	}
	if got := platform.CompareUserData("", plain); got.Config != "" {
		t.Errorf("of a machine without user data is known %q", got.Config)
	}
}
