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

// sendAnonymous sends an anonymous request.
func (b *bucket) sendAnonymous(ctx context.Context, path string) (web.Answer, error) {
	return web.Do(ctx, b.c.HTTP, func() (*http.Request, error) { return b.request(ctx, http.MethodGet, path, nil, "") }, isThrottled)
}

// isPublic requests, anonymously, the permissions of anonymous users on the bucket. This
// needs no permission, and the answer accounts for everything: policy, organization and
// public access prevention.
func (b *bucket) isPublic(ctx context.Context) (bool, error) {
	const get = "storage.objects.get"
	a, err := b.sendAnonymous(ctx, b.apiPath()+"/iam/testPermissions?permissions="+get)
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
	return false, b.wrapError(ctx, "check whether public access is allowed to", "storage.buckets.testIamPermissions", "", a, err)
}

// checkPublic returns an error if an object that must be public is not. If anonymous
// requests get no useful answer, nothing is known and there is no error.
func (b *bucket) checkPublic(ctx context.Context, key string) error {
	a, err := b.sendAnonymous(ctx, b.object(b.prefix+key)+"?fields=generation")
	if err != nil || a.Status != http.StatusForbidden && a.Status != http.StatusUnauthorized {
		return nil
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("%s was written, but it must be public, and the server does not allow that", store.URL(b, key)), b.publishRemedy())
}

// publishRemedy returns how to make objects public.
func (b *bucket) publishRemedy() string {
	return fmt.Sprintf("make the bucket public: gcloud storage buckets update gs://%[1]s --no-public-access-prevention, and gcloud storage buckets add-iam-policy-binding gs://%[1]s --member=allUsers --role=roles/storage.objectViewer; "+
		"in a bucket without uniform access, single objects can be public instead", b.name)
}
