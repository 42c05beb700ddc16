package model_test

import (
	"strings"
	"testing"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/model/managedfile"
)

// The secrets of a platform are in a file for control planes, which plans do not show.
func TestSecretsOfThePlatformAreInAHiddenFile(t *testing.T) {
	in := input(t, golden+"minimal-dns-none")
	for _, secrets := range []map[string]pki.Secret{nil, {"TOKEN": pki.NewSecret("a\"b")}} {
		in.PlatformSecrets = secrets
		nodes, _, err := model.Build(in)
		if err != nil {
			t.Fatal(err)
		}
		var files []*managedfile.File
		for _, n := range nodes {
			if f, ok := n.Want.(*managedfile.File); ok && strings.HasSuffix(f.Key, "/"+layout.PlatformSecrets) {
				files = append(files, f)
			}
		}
		if len(files) != len(secrets) {
			t.Fatalf("for %v there are %d files", secrets, len(files))
		}
		for _, f := range files {
			got, err := pki.DecodeSecrets([]byte(f.Content.Value().Text()))
			if err != nil || len(got) != 1 || got["TOKEN"].Reveal() != "a\"b" || f.Content.Shown() {
				t.Errorf("the file has %v, %v; shown: %v", got, err, f.Content.Shown())
			}
		}
	}
}
