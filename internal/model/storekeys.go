package model

import (
	"strings"

	"kops.local/kops/api"
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

// scriptURL returns the URL of a file as the boot script spells it, which knows the servers of S3 by one
// scheme.
func (in Input) scriptURL(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if in.needsStoreKeys() && strings.HasPrefix(url, in.spec().ConfigStore.Base+"/") {
		return "s3://" + rest
	}
	return url
}

// keysInUserData returns the keys of the store in the user data of a group's machines, encoded; "" if
// they have none there: workers need none, and other platforms have a better place.
func (in Input) keysInUserData(g *api.InstanceGroup) string {
	if !g.HasAPIServer() || in.StoreKeys().Name != storekeys.UserData || in.OwnStoreKeys.IsZero() {
		return ""
	}
	return in.OwnStoreKeys.Encode()
}

// withoutStoreKeys warns if control planes cannot get the keys that they need. Every process of a
// machine may read its user data, so keys are there only if the platform has no other place.
func (in Input) withoutStoreKeys() diag.List {
	switch at := in.StoreKeys(); {
	case !in.needsStoreKeys(), !at.IsZero() && at.Name != storekeys.UserData, !at.IsZero() && !in.OwnStoreKeys.IsZero():
		return nil
	case !at.IsZero():
		return diag.List{{Rule: "store-keys", Path: "spec.configBase", Value: in.spec().ConfigStore.Base, Warning: true,
			Message: "is on the S3 server " + in.Environment[storekeys.Endpoint] + ", whose keys are not set, so control planes would start without them",
			Remedy:  "set " + storekeys.ID + " and " + storekeys.Secret}}
	}
	return diag.List{{Rule: "store-keys", Path: "spec.configBase", Value: in.spec().ConfigStore.Base, Warning: true,
		Message: "is on the S3 server " + in.Environment[storekeys.Endpoint] + ", whose keys kops does not put into user data; " + in.Traits.Title + " has no place that only control planes can read, so they would not start",
		Remedy:  "keep the state in a store that machines can read with their own identity, or provide " + storekeys.ID + " and " + storekeys.Secret + " to their programs yourself"}}
}
