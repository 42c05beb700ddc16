package kinds

import (
	"context"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"kops.local/kops/internal/engine/fault"
)

// LoadBalancerHost returns the host name of the load balancer with the
// name, or "" if it does not exist.
func LoadBalancerHost(ctx context.Context, c *Client, name string) (string, error) {
	out, err := c.ELB.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{Names: []string{name}})
	if fault.Is(err, fault.Gone) || err == nil && len(out.LoadBalancers) == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return deref(out.LoadBalancers[0].DNSName), nil
}
