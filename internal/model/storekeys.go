package model

import (
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/spec/diag"
)

// StoreKeys is where control planes find the keys of the server of their store; zero
// where they need none, and where their platform has no place that only they read.
func (in Input) StoreKeys() storekeys.Place {
	if !in.needsStoreKeys() || in.Traits.Store.Keys == nil {
		return storekeys.Place{}
	}
	return storekeys.Place{Platform: string(in.Traits.Name), Name: in.Traits.Store.Keys(in.Cluster.Name)}
}

func (in Input) needsStoreKeys() bool {
	return storekeys.Needed(in.Environment[storekeys.Endpoint], in.spec().ConfigStore.Base)
}

// withoutStoreKeys warns where nothing gives control planes the keys that they need. No
// key ever stands in user data, which every process of a machine may read, or in what is
// rendered.
func (in Input) withoutStoreKeys() diag.List {
	if !in.needsStoreKeys() || !in.StoreKeys().IsZero() {
		return nil
	}
	return diag.List{{Rule: "store-keys", Path: "spec.configBase", Value: in.spec().ConfigStore.Base, Warning: true,
		Message: "is at " + in.Environment[storekeys.Endpoint] + ", whose keys kops puts into no user data, and " + in.Traits.Title + " has no place for them that only control planes read: they do not start without",
		Remedy:  "keep the state in a store that the machines' own identity reads; or give their programs " + storekeys.ID + " and " + storekeys.Secret + " yourself"}}
}
