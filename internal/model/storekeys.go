package model

import (
	"strings"

	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/spec/diag"
)

// StoreKeys returns where control planes find the keys of their store's server; zero if they need
// none, or if their platform has no place that only they can read.
func (in Input) StoreKeys() storekeys.Place {
	if !in.needsStoreKeys() || in.Traits.Store.Keys == nil {
		return storekeys.Place{}
	}
	return storekeys.Place{Platform: string(in.Traits.Name), Name: in.Traits.Store.Keys(in.Cluster.Name)}
}

func (in Input) needsStoreKeys() bool {
	scheme, _, _ := strings.Cut(in.spec().ConfigStore.Base, "://")
	if _, own := in.Traits.Store.Fetch[scheme]; own && scheme != "s3" { // a store of the platform, on no server of S3
		return false
	}
	return storekeys.Needed(in.Environment[storekeys.Endpoint], in.spec().ConfigStore.Base)
}

// withoutStoreKeys warns if control planes cannot get the keys that they need. Keys are never put
// into user data, which every process of a machine may read, or into rendered files.
func (in Input) withoutStoreKeys() diag.List {
	if !in.needsStoreKeys() || !in.StoreKeys().IsZero() {
		return nil
	}
	return diag.List{{Rule: "store-keys", Path: "spec.configBase", Value: in.spec().ConfigStore.Base, Warning: true,
		Message: "is on the S3 server " + in.Environment[storekeys.Endpoint] + ", whose keys kops does not put into user data; " + in.Traits.Title + " has no place that only control planes can read, so they would not start",
		Remedy:  "keep the state in a store that machines can read with their own identity, or provide " + storekeys.ID + " and " + storekeys.Secret + " to their programs yourself"}}
}
