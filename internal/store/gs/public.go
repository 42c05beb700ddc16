package gs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// anybody sends a request that bears no name.
func (b *bucket) anybody(ctx context.Context, path string) (web.Answer, error) {
	return web.Ask(ctx, b.c.HTTP, func() (*http.Request, error) { return b.request(ctx, http.MethodGet, path, nil, "") }, tooMany)
}

// public asks as anybody what anybody may do with the bucket, which takes no permission
// and knows of all that decides: policy, organisation and prevention of public access.
func (b *bucket) public(ctx context.Context) (bool, error) {
	const get = "storage.objects.get"
	a, err := b.anybody(ctx, b.at()+"/iam/testPermissions?permissions="+get)
	switch {
	case err == nil && a.OK():
		var may struct {
			Permissions []string `json:"permissions"`
		}
		if err := json.Unmarshal(a.Body, &may); err != nil {
			return false, fault.Wrap(fault.Permanent, fmt.Errorf("check whether public access is allowed to %s: %w", b.url, err), "check any proxy")
		}
		return slices.Contains(may.Permissions, get), nil
	case err == nil && (a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden):
		return false, nil
	}
	return false, b.failed(ctx, "check whether public access is allowed to", "storage.buckets.testIamPermissions", "", a, err)
}

// everybody refuses an object that everybody is to read, and may not. Where nobody
// answers without credentials, nothing is known.
func (b *bucket) everybody(ctx context.Context, key string) error {
	a, err := b.anybody(ctx, b.object(b.prefix+key)+"?fields=generation")
	if err != nil || a.Status != http.StatusForbidden && a.Status != http.StatusUnauthorized {
		return nil
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("%s was written, but it must be public, and the server does not allow that", store.URL(b, key)), b.open())
}

// open is what lets everybody read.
func (b *bucket) open() string {
	return fmt.Sprintf("make the bucket public: gcloud storage buckets update gs://%[1]s --no-public-access-prevention, and gcloud storage buckets add-iam-policy-binding gs://%[1]s --member=allUsers --role=roles/storage.objectViewer; "+
		"in a bucket without uniform access, single objects can be public instead", b.name)
}
