// Package kinds declares the resources of Hetzner Cloud that kops creates: what each one is, how it is
// observed, and how differences are applied. Labels say to which cluster an object belongs. References
// to objects are paths, such as networks/42, because numbers alone are not unique.
//
// It must not know why a cluster needs a resource.
package kinds

import (
	"context"
	"strings"

	"kops.local/kops/internal/engine/once"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
)

// api is the API to whose rate limit all calls count.
const api = "hcloud"

// All lists the kinds, each after those it may refer to.
func All() []resource.Any {
	return []resource.Any{Networks.Erase(), Firewalls.Erase(), SSHKeys.Erase(), Volumes.Erase(), PlacementGroups.Erase(), LoadBalancers.Erase(), Servers.Erase()}
}

// Client is the client that the kinds use. A Client returned by Snapshot sends each query only once.
type Client struct {
	*hetznerapi.Client
	answers *once.Answers // nil: every query is sent
}

// NewClient returns a client that remembers nothing.
func NewClient(c *hetznerapi.Client) *Client { return &Client{Client: c} }

// Snapshot returns a client for one observation.
func (c *Client) Snapshot() *Client { return &Client{c.Client, once.New()} }

// list returns the objects of a kind that a label selector selects.
func list[T any](ctx context.Context, c *Client, kind, selector string) ([]T, error) {
	return once.Ask(ctx, c.answers, kind+"?"+selector, func(ctx context.Context) ([]T, error) {
		return hetznerapi.List[T](ctx, c.Client, kind, hetznerapi.Labelled(selector))
	})
}

// ownList returns the objects of a kind that have the cluster's label, converted.
func ownList[A, T any](ctx context.Context, c *Client, kind, cluster string, convert func(A) T) ([]T, error) {
	all, err := list[A](ctx, c, kind, hetznercloud.ClusterLabel+"="+cluster)
	var out []T
	for _, a := range all {
		out = append(out, convert(a))
	}
	return out, err
}

// reference returns a reference to an object.
func reference(kind string, id int64) resource.Value { return resource.Lit(hetznerapi.Path(kind, id)) }

// number returns the number of the object that a reference means.
func number(v resource.Value) int64 { return hetznerapi.Number(v.Text()) }

// Labels are the labels of an object. Other programs may add labels, too.
type Labels map[string]string

// Foreign reports whether an unwanted label was not set by kops.
func (Labels) Foreign(key string) bool {
	for _, prefix := range []string{"kops.k8s.io/", "wanted.kops.k8s.io/", hetznercloud.NodeLabelPrefix} {
		if strings.HasPrefix(key, prefix) {
			return false
		}
	}
	return key != hetznercloud.AutoscalerLabel
}

// setLabels sets the labels of the object at a path, except those that others added.
func setLabels(ctx context.Context, c *Client, path string, have, want Labels) error {
	return c.Set(ctx, path, map[string]any{"labels": resource.WithForeign(want, have)})
}

// relabel returns a setter of the labels of objects, whose paths and labels of returns.
func relabel[T any](of func(*T) (string, Labels)) resource.Setter[T, *Client] {
	return resource.Setter[T, *Client]{Fields: []string{"Labels"}, Set: func(ctx context.Context, c *Client, have, want *T) error {
		path, old := of(have)
		_, labels := of(want)
		return setLabels(ctx, c, path, old, labels)
	}}
}

// create creates an object of a kind, and sets its path.
func create(ctx context.Context, c *Client, kind string, path *string, properties map[string]any) error {
	made, err := hetznerapi.Create[hetznerapi.Object](ctx, c.Client, kind, properties)
	*path = hetznerapi.Path(kind, made.ID)
	return err
}
