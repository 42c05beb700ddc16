package kinds

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
)

// taggedObject is a load balancer or target group with its tags, which the API returns separately.
type taggedObject[T any] struct {
	object T
	tags   map[string]string
}

// describeBalancers returns the load balancers with the names or, for a deletion, all of the
// cluster's. It returns an error if one with a wanted name belongs to someone else.
func describeBalancers(ctx context.Context, c *Client, s resource.Scope, names []string) ([]taggedObject[elbtypes.LoadBalancer], error) {
	key := fmt.Sprint("load balancers of ", s.Cluster, " ", s.All, names)
	return oncePerSnapshot(ctx, c, key, func(ctx context.Context) ([]taggedObject[elbtypes.LoadBalancer], error) {
		found, err := namedOrAll(ctx, s.All, names, func(ctx context.Context, names []string) ([]elbtypes.LoadBalancer, error) {
			return pages(ctx, elb.NewDescribeLoadBalancersPaginator(c.ELB, &elb.DescribeLoadBalancersInput{Names: names}),
				func(p *elb.DescribeLoadBalancersOutput) []elbtypes.LoadBalancer { return p.LoadBalancers })
		})
		if err != nil {
			return nil, fmt.Errorf("describe load balancers: %w", err)
		}
		return addTags(ctx, c, s, found, "the load balancer",
			func(l elbtypes.LoadBalancer) (arn, name string) { return *l.LoadBalancerArn, *l.LoadBalancerName })
	})
}

// namedOrAll describes all objects, or those with the names. A single unknown name makes a whole
// call fail, so then it requests each name separately.
func namedOrAll[T any](ctx context.Context, all bool, names []string, describe func(context.Context, []string) ([]T, error)) ([]T, error) {
	if all {
		return describe(ctx, nil)
	}
	if len(names) == 0 {
		return nil, nil
	}
	list, err := describe(ctx, names)
	if !fault.Is(err, fault.Gone) || len(names) == 1 {
		return list, fault.IgnoreGone(err)
	}
	return observe.EachOf(ctx, names, func(ctx context.Context, name string) ([]T, error) {
		list, err := describe(ctx, []string{name})
		return list, fault.IgnoreGone(err)
	})
}

// tagBatch is the maximum number of ARNs in one call (API reference, DescribeTags).
const tagBatch = 20

// addTags returns the described objects that are in scope, with their tags. It returns an error if
// an object requested by name belongs to another cluster.
func addTags[T any](ctx context.Context, c *Client, s resource.Scope, found []T, what string, ids func(T) (arn, name string)) ([]taggedObject[T], error) {
	arns := make([]string, len(found))
	for i, f := range found {
		arns[i], _ = ids(f)
	}
	batches, err := observe.Each(ctx, slices.Collect(slices.Chunk(arns, tagBatch)), func(ctx context.Context, arns []string) (*elb.DescribeTagsOutput, error) {
		return c.ELB.DescribeTags(ctx, &elb.DescribeTagsInput{ResourceArns: arns})
	})
	if err != nil {
		return nil, fmt.Errorf("describe the tags of load balancers: %w", err)
	}
	tags := map[string]map[string]string{}
	for _, b := range batches {
		for _, d := range b.TagDescriptions {
			tags[*d.ResourceArn] = elbTagMap(d.Tags)
		}
	}
	var out []taggedObject[T]
	for _, f := range found {
		arn, name := ids(f)
		if isInScope(s, tags[arn]) {
			out = append(out, taggedObject[T]{f, tags[arn]})
		} else if !s.All {
			return nil, foreignError(what, name, s.Cluster)
		}
	}
	return out, nil
}

func listLoadBalancers(ctx context.Context, c *Client, s resource.Scope) ([]*LoadBalancer, error) {
	found, err := describeBalancers(ctx, c, s, distinct(s.Names))
	if err != nil {
		return nil, err
	}
	return observe.Each(ctx, found, func(ctx context.Context, f taggedObject[elbtypes.LoadBalancer]) (*LoadBalancer, error) {
		l := observedBalancer(f.object, f.tags)
		if s.All { // objects to delete are not compared
			return l, nil
		}
		return l, observeAttributes(ctx, c, l)
	})
}

func observedBalancer(got elbtypes.LoadBalancer, tags map[string]string) *LoadBalancer {
	l := &LoadBalancer{
		Name:           *got.LoadBalancerName,
		Type:           string(got.Type),
		Internal:       got.Scheme == elbtypes.LoadBalancerSchemeEnumInternal,
		IPAddressType:  string(got.IpAddressType),
		SecurityGroups: resource.Lits(got.SecurityGroups...),
		Tags:           tags,
	}
	l.setOutputs(got)
	for _, z := range got.AvailabilityZones {
		m := SubnetMapping{Subnet: resource.Lit(deref(z.SubnetId))}
		for _, a := range z.LoadBalancerAddresses { // at most one
			m.AllocationID, m.PrivateIPv4 = resource.Lit(deref(a.AllocationId)), deref(a.PrivateIPv4Address)
		}
		l.Subnets = append(l.Subnets, m)
	}
	return l
}

func observeAttributes(ctx context.Context, c *Client, l *LoadBalancer) error {
	out, err := c.ELB.DescribeLoadBalancerAttributes(ctx, &elb.DescribeLoadBalancerAttributesInput{LoadBalancerArn: &l.ARN})
	if err != nil {
		return fmt.Errorf("describe the attributes of the load balancer %s: %w", l.Name, err)
	}
	got := map[string]string{}
	for _, a := range out.Attributes {
		got[*a.Key] = deref(a.Value)
	}
	l.CrossZone = got[attrCrossZone] == "true"
	if got[attrLogsEnabled] == "true" {
		l.AccessLogs = &AccessLogs{Enabled: true, Bucket: got[attrLogsBucket], Prefix: got[attrLogsPrefix]}
	}
	return nil
}

// retagELB changes the tags of a load balancer or target group.
func retagELB(ctx context.Context, c *Client, arn string, have, want map[string]string) error {
	return retag(have, want,
		func(set map[string]string) error {
			_, err := c.ELB.AddTags(ctx, &elb.AddTagsInput{ResourceArns: []string{arn}, Tags: elbTags(set)})
			return err
		},
		func(drop []string) error {
			_, err := c.ELB.RemoveTags(ctx, &elb.RemoveTagsInput{ResourceArns: []string{arn}, TagKeys: drop})
			return err
		})
}

func elbTags(tags map[string]string) []elbtypes.Tag {
	return pairs(tags, func(k, v *string) elbtypes.Tag { return elbtypes.Tag{Key: k, Value: v} })
}

func elbTagMap(tags []elbtypes.Tag) map[string]string {
	return tagsOf(tags, func(t elbtypes.Tag) (*string, *string) { return t.Key, t.Value })
}

// boolText formats a boolean attribute for the API.
func boolText(b bool) string { return strconv.FormatBool(b) }

// balancerName returns the name in a load balancer's or a listener's ARN:
// "…:loadbalancer/net/NAME/0123".
func balancerName(arn string) string {
	parts := strings.Split(arn, "/")
	if len(parts) < 3 {
		return ""
	}
	return parts[2]
}
