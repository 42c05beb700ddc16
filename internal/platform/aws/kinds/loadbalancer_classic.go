package kinds

import (
	"context"
	"fmt"
	"slices"

	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
)

// ClassicLoadBalancer is a load balancer of the older type, as created by the cloud controller for
// a service. It is only deleted, with its cluster.
type ClassicLoadBalancer struct {
	Name    string `res:"replace"`
	Groups  []resource.Value
	Subnets []resource.Value
	Tags    map[string]string
}

// ClassicBalancers is the kind of ClassicLoadBalancer.
var ClassicBalancers = resource.Kind[ClassicLoadBalancer, *Client]{
	Name:   "aws_elb",
	Direct: true,
	API:    apiELB,
	Key:    func(l *ClassicLoadBalancer) string { return l.Name },
	List:   listClassicBalancers,
	Create: func(context.Context, *Client, *ClassicLoadBalancer) error { return errDeletedOnly },
	Update: []resource.Setter[ClassicLoadBalancer, *Client]{{Fields: []string{"Groups", "Subnets", "Tags"},
		Set: func(context.Context, *Client, *ClassicLoadBalancer, *ClassicLoadBalancer) error {
			return errDeletedOnly
		}}},
	Delete: func(ctx context.Context, c *Client, l *ClassicLoadBalancer) error {
		_, err := c.ClassicELB.DeleteLoadBalancer(ctx, &classic.DeleteLoadBalancerInput{LoadBalancerName: &l.Name})
		return fault.IgnoreGone(err)
	},
}

// listClassicBalancers lists all load balancers of the region, because the API has no filters, and
// their tags in batches.
func listClassicBalancers(ctx context.Context, c *Client, s resource.Scope) ([]*ClassicLoadBalancer, error) {
	if !s.All {
		return nil, nil
	}
	found, err := pages(ctx, classic.NewDescribeLoadBalancersPaginator(c.ClassicELB, &classic.DescribeLoadBalancersInput{}),
		func(p *classic.DescribeLoadBalancersOutput) []classictypes.LoadBalancerDescription {
			return p.LoadBalancerDescriptions
		})
	if err != nil {
		return nil, fmt.Errorf("describe classic load balancers: %w", err)
	}
	return observe.EachOf(ctx, slices.Collect(slices.Chunk(found, tagBatch)), func(ctx context.Context, some []classictypes.LoadBalancerDescription) ([]*ClassicLoadBalancer, error) {
		return ownClassicBalancers(ctx, c, s, some)
	})
}

// ownClassicBalancers returns the load balancers whose tags assign them to the cluster.
func ownClassicBalancers(ctx context.Context, c *Client, s resource.Scope, some []classictypes.LoadBalancerDescription) ([]*ClassicLoadBalancer, error) {
	in := &classic.DescribeTagsInput{}
	for _, d := range some {
		in.LoadBalancerNames = append(in.LoadBalancerNames, *d.LoadBalancerName)
	}
	told, err := c.ClassicELB.DescribeTags(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("describe the tags of classic load balancers: %w", err)
	}
	tags := map[string]map[string]string{}
	for _, t := range told.TagDescriptions {
		tags[*t.LoadBalancerName] = tagsOf(t.Tags, func(t classictypes.Tag) (*string, *string) { return t.Key, t.Value })
	}
	var out []*ClassicLoadBalancer
	for _, d := range some {
		if own := tags[*d.LoadBalancerName]; isInScope(s, own) {
			out = append(out, &ClassicLoadBalancer{Name: *d.LoadBalancerName, Groups: resource.Lits(d.SecurityGroups...), Subnets: resource.Lits(d.Subnets...), Tags: own})
		}
	}
	return out, nil
}
