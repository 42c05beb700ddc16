package kubeclient

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// atOnce is how many API versions are queried concurrently.
const atOnce = 8

// Resources lists the resources of every API version that the server serves. Of the versions of a
// group, the one that the server prefers comes first. A version is left out if the extension server
// behind it does not respond.
func (c *Client) Resources(ctx context.Context) ([]*metav1.APIResourceList, error) {
	versions, err := c.versions(ctx)
	if err != nil {
		return nil, err
	}
	lists := make([]*metav1.APIResourceList, len(versions))
	g, part := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, gv := range versions {
		g.Go(func() error {
			var list metav1.APIResourceList
			err := c.Path(root(gv)).Do(part).Into(&list)
			var answered apierrors.APIStatus
			switch {
			case err == nil:
				lists[i] = &list
			case !errors.As(err, &answered):
				return fmt.Errorf("list the resources of %s: %w", gv, err)
			}
			return nil
		})
	}
	err = g.Wait()
	return slices.DeleteFunc(lists, func(l *metav1.APIResourceList) bool { return l == nil }), err
}

// versions lists the API versions that the server serves, group by group.
func (c *Client) versions(ctx context.Context) ([]schema.GroupVersion, error) {
	var found metav1.APIGroupList
	if err := c.Path("/apis").Do(ctx).Into(&found); err != nil {
		return nil, fmt.Errorf("list the API groups: %w", err)
	}
	out := []schema.GroupVersion{{Version: "v1"}}
	for _, group := range found.Groups {
		preferred := schema.GroupVersion{Group: group.Name, Version: group.PreferredVersion.Version}
		out = append(out, preferred)
		for _, v := range group.Versions {
			if v.Version != preferred.Version {
				out = append(out, schema.GroupVersion{Group: group.Name, Version: v.Version})
			}
		}
	}
	return out, nil
}
