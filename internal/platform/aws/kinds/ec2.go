package kinds

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/resource"
)

// filter selects the objects with one of the values.
func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: aws.String(name), Values: values}
}

// ownedFilters selects the objects that kops created for the cluster or, if s.All is set, those
// that anyone created for it. Filtering by one tag gives the same result as by both, for half the
// work of the service.
func ownedFilters(s resource.Scope) []ec2types.Filter {
	if s.All {
		return []ec2types.Filter{filter("tag:"+TagOwnerPrefix+s.Cluster, Owned)}
	}
	return []ec2types.Filter{filter("tag:"+TagCluster, s.Cluster)}
}

// describer lists the objects of one type that match the filters.
type describer[T any] struct {
	what     string // identifies the request in a snapshot
	describe func(context.Context, *Client, []ec2types.Filter) ([]T, error)
	tags     func(T) []ec2types.Tag
	id       string // the name of the filter for identifiers
}

// listOwned lists the cluster's objects, once per snapshot. The response is checked again, because the
// filter is less strict than isInScope, and some emulators ignore it.
func (d describer[T]) listOwned(ctx context.Context, c *Client, s resource.Scope) ([]T, error) {
	return oncePerSnapshot(ctx, c, fmt.Sprint(d.what, s.Cluster, s.All), func(ctx context.Context) ([]T, error) {
		list, err := d.describe(ctx, c, ownedFilters(s))
		return slices.DeleteFunc(list, func(o T) bool { return !isInScope(s, tagMap(d.tags(o))) }), err
	})
}

// listAll lists the cluster's objects and the shared objects in the scope.
func (d describer[T]) listAll(ctx context.Context, c *Client, s resource.Scope) ([]T, error) {
	list, err := d.listOwned(ctx, c, s)
	if err != nil || len(s.Adopted) == 0 {
		return list, err
	}
	shared, err := d.describe(ctx, c, []ec2types.Filter{filter(d.id, s.Adopted...)})
	return append(slices.Clip(list), shared...), err
}

// convert converts descriptions to a kind's objects.
func convert[D, T any](list []D, err error, f func(D) *T) ([]*T, error) {
	if err != nil {
		return nil, err
	}
	out := make([]*T, len(list))
	for i, d := range list {
		out[i] = f(d)
	}
	return out, nil
}

// setEC2Tags changes an object's tags, with at most one call to add and one to remove.
func setEC2Tags(ctx context.Context, c *Client, id string, have, want map[string]string) error {
	return retag(have, want,
		func(tags map[string]string) error {
			_, err := c.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: ec2Tags(tags)})
			return err
		},
		func(keys []string) error {
			in := &ec2.DeleteTagsInput{Resources: []string{id}}
			for _, k := range keys {
				in.Tags = append(in.Tags, ec2types.Tag{Key: &k})
			}
			_, err := c.EC2.DeleteTags(ctx, in)
			return err
		})
}

// tagSetter returns the setter of the field Tags for an EC2 kind.
func tagSetter[T any](get func(*T) (id string, tags map[string]string)) resource.Setter[T, *Client] {
	return resource.Setter[T, *Client]{Fields: []string{"Tags"}, Set: func(ctx context.Context, c *Client, have, want *T) error {
		id, old := get(have)
		_, tags := get(want)
		return setEC2Tags(ctx, c, id, old, tags)
	}}
}

// text returns an optional string in a response as a known value.
func text(p *string) resource.Value { return resource.Lit(aws.ToString(p)) }
