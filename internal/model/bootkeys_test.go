package model_test

import (
	"slices"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/spec/diag"
)

// withKeysInUserData returns an input whose platform has no place for the keys of a store.
func withKeysInUserData(in model.Input, keys storekeys.Pair) model.Input {
	traits := *in.Traits
	traits.Store.Keys = func(string) string { return storekeys.UserData }
	in.Traits, in.OwnStoreKeys, in.Environment = &traits, keys, map[string]string{"S3_ENDPOINT": "https://s3.e.com"}
	return in
}

// Where nothing but a control plane's user data can have the keys, programs find them there: the keys are
// not exported, and neither shown nor given to workers.
func TestKeysInUserData(t *testing.T) {
	in := input(t, golden+"irsa")
	cluster := *in.Cluster
	in.Cluster = &cluster
	cluster.Spec.ConfigStore.Base = "hos://state/" + cluster.Name
	keys := storekeys.Pair{ID: "id", Secret: "secret"}
	in = withKeysInUserData(in, keys)
	data, err := model.UserData(in, group(t, in, api.RoleControlPlane), resource.Value{})
	if err != nil {
		t.Fatal(err)
	}
	text := data.Value().Text()
	if found, err := storekeys.FindInScript(text); err != nil || found != keys || data.Shown() {
		t.Errorf("a control plane has %v, %v; shown: %v", found, err, data.Shown())
	}
	if !strings.Contains(text, "export S3_KEYS='aws:user-data'\n") || strings.Contains(text, "AmazonSSM") || strings.Contains(text, "hos://state/"+cluster.Name+"/programs") {
		t.Errorf("a control plane is started with\n%s", text)
	}
	if data, err = model.UserData(in, group(t, in, api.RoleNode), resource.Value{}); err != nil || strings.Contains(data.Value().Text(), keys.Encode()) || !data.Shown() {
		t.Errorf("a worker has keys, %v; shown: %v", err, data.Shown())
	}
	for pair, want := range map[storekeys.Pair]int{keys: 0, {}: 1} {
		in.OwnStoreKeys = pair
		_, findings, err := model.Build(in)
		if err != nil {
			t.Fatal(err)
		}
		if found := slices.DeleteFunc(findings, func(f diag.Finding) bool { return f.Rule != "store-keys" }); len(found) != want {
			t.Errorf("with %v it is told %v", pair, found)
		}
	}
}
