package kinds

import (
	"context"
	"fmt"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
)

// TargetGroup is the group of machines that a listener sends connections to.
type TargetGroup struct {
	Name     string         `res:"forbid" tf:"name"` // at most 32 characters
	Port     int            `res:"replace" tf:"port"`
	Protocol string         `res:"replace" tf:"protocol"` // "TCP" or "TLS"
	VPC      resource.Value `res:"replace" tf:"vpc_id"`
	// ConnectionTermination is "true" or "false": whether connections are closed when the delay is
	// over; empty for AWS' default.
	ConnectionTermination string `res:"default,post" tf:"connection_termination"`
	// DeregistrationDelay is in seconds; empty for AWS' default.
	DeregistrationDelay string      `res:"default,post" tf:"deregistration_delay"`
	HealthCheck         HealthCheck `tf:"health_check,block"`
	Tags                Tags        `tf:"tags"`

	ARN string `res:"out,id" out:"arn"`
	ID  string `res:"out,id" out:"id"` // the ARN
}

// HealthCheck specifies how a target group checks its targets.
type HealthCheck struct {
	Protocol           string `tf:"protocol"` // "TCP", "HTTP" or "HTTPS"
	Path               string `tf:"path"`     // for HTTP and HTTPS
	Interval           int    `tf:"interval"` // seconds
	HealthyThreshold   int    `tf:"healthy_threshold"`
	UnhealthyThreshold int    `tf:"unhealthy_threshold"`
}

// TargetGroups is the kind of TargetGroup.
var TargetGroups = resource.Kind[TargetGroup, *Client]{
	Name:   "aws_lb_target_group",
	API:    apiELB,
	Tasks:  []string{"TargetGroup"},
	Key:    func(g *TargetGroup) string { return g.Name },
	List:   listTargetGroups,
	Create: createTargetGroup,
	// A new group has AWS' defaults (API reference, TargetGroupAttribute).
	Initial: func(g *TargetGroup) { g.ConnectionTermination, g.DeregistrationDelay = "false", "300" },
	Update: []resource.Setter[TargetGroup, *Client]{
		{Fields: []string{"ConnectionTermination", "DeregistrationDelay"}, Set: setTargetGroupAttributes},
		{Fields: []string{"HealthCheck"}, Set: setHealthCheck},
		{Fields: []string{"Tags"}, Set: func(ctx context.Context, c *Client, have, want *TargetGroup) error {
			return retagELB(ctx, c, have.ARN, have.Tags, want.Tags)
		}},
	},
	Delete: func(ctx context.Context, c *Client, g *TargetGroup) error {
		_, err := c.ELB.DeleteTargetGroup(ctx, &elb.DeleteTargetGroupInput{TargetGroupArn: &g.ARN})
		return fault.IgnoreGone(err)
	},
}

// Keys of target groups' attributes (API reference, TargetGroupAttribute).
const (
	attrTermination = "deregistration_delay.connection_termination.enabled"
	attrDelay       = "deregistration_delay.timeout_seconds"
)

func listTargetGroups(ctx context.Context, c *Client, s resource.Scope) ([]*TargetGroup, error) {
	found, err := namedOrAll(ctx, s.All, distinct(s.Names), func(ctx context.Context, names []string) ([]elbtypes.TargetGroup, error) {
		return pages(ctx, elb.NewDescribeTargetGroupsPaginator(c.ELB, &elb.DescribeTargetGroupsInput{Names: names}),
			func(p *elb.DescribeTargetGroupsOutput) []elbtypes.TargetGroup { return p.TargetGroups })
	})
	if err != nil {
		return nil, fmt.Errorf("describe target groups: %w", err)
	}
	owned, err := addTags(ctx, c, s, found, "the target group",
		func(g elbtypes.TargetGroup) (arn, name string) { return *g.TargetGroupArn, *g.TargetGroupName })
	if err != nil {
		return nil, err
	}
	return observe.Each(ctx, owned, func(ctx context.Context, f taggedObject[elbtypes.TargetGroup]) (*TargetGroup, error) {
		g := observedTargetGroup(f.object, f.tags)
		if s.All { // objects to delete are not compared
			return g, nil
		}
		return g, observeTargetGroupAttributes(ctx, c, g)
	})
}

func observedTargetGroup(got elbtypes.TargetGroup, tags map[string]string) *TargetGroup {
	g := &TargetGroup{
		Name:     *got.TargetGroupName,
		Port:     int(deref(got.Port)),
		Protocol: string(got.Protocol),
		VPC:      resource.Lit(deref(got.VpcId)),
		HealthCheck: HealthCheck{
			Protocol:           string(got.HealthCheckProtocol),
			Path:               deref(got.HealthCheckPath),
			Interval:           int(deref(got.HealthCheckIntervalSeconds)),
			HealthyThreshold:   int(deref(got.HealthyThresholdCount)),
			UnhealthyThreshold: int(deref(got.UnhealthyThresholdCount)),
		},
		Tags: tags,
		ARN:  *got.TargetGroupArn,
		ID:   *got.TargetGroupArn,
	}
	return g
}

func observeTargetGroupAttributes(ctx context.Context, c *Client, g *TargetGroup) error {
	out, err := c.ELB.DescribeTargetGroupAttributes(ctx, &elb.DescribeTargetGroupAttributesInput{TargetGroupArn: &g.ARN})
	if err != nil {
		return fmt.Errorf("describe the attributes of the target group %s: %w", g.Name, err)
	}
	g.ConnectionTermination = boolText(false)
	for _, a := range out.Attributes {
		switch *a.Key {
		case attrTermination:
			g.ConnectionTermination = deref(a.Value)
		case attrDelay:
			g.DeregistrationDelay = deref(a.Value)
		}
	}
	return nil
}

func createTargetGroup(ctx context.Context, c *Client, g *TargetGroup) error {
	h := g.HealthCheck
	out, err := c.ELB.CreateTargetGroup(ctx, &elb.CreateTargetGroupInput{
		Name:                       &g.Name,
		Port:                       number(g.Port),
		Protocol:                   elbtypes.ProtocolEnum(g.Protocol),
		VpcId:                      new(g.VPC.Text()),
		HealthCheckProtocol:        elbtypes.ProtocolEnum(h.Protocol),
		HealthCheckPath:            stringOrNil(h.Path),
		HealthCheckIntervalSeconds: int32OrNil(h.Interval),
		HealthyThresholdCount:      int32OrNil(h.HealthyThreshold),
		UnhealthyThresholdCount:    int32OrNil(h.UnhealthyThreshold),
		Tags:                       elbTags(g.Tags),
	})
	if err != nil {
		return err
	}
	g.ARN, g.ID = *out.TargetGroups[0].TargetGroupArn, *out.TargetGroups[0].TargetGroupArn
	return nil
}

func setTargetGroupAttributes(ctx context.Context, c *Client, have, want *TargetGroup) error {
	set := map[string]string{}
	if want.ConnectionTermination != "" {
		set[attrTermination] = want.ConnectionTermination
	}
	if want.DeregistrationDelay != "" {
		set[attrDelay] = want.DeregistrationDelay
	}
	_, err := c.ELB.ModifyTargetGroupAttributes(ctx, &elb.ModifyTargetGroupAttributesInput{
		TargetGroupArn: &have.ARN,
		Attributes: pairs(set, func(k, v *string) elbtypes.TargetGroupAttribute {
			return elbtypes.TargetGroupAttribute{Key: k, Value: v}
		}),
	})
	return err
}

func setHealthCheck(ctx context.Context, c *Client, have, want *TargetGroup) error {
	h := want.HealthCheck
	_, err := c.ELB.ModifyTargetGroup(ctx, &elb.ModifyTargetGroupInput{
		TargetGroupArn:             &have.ARN,
		HealthCheckProtocol:        elbtypes.ProtocolEnum(h.Protocol),
		HealthCheckPath:            stringOrNil(h.Path),
		HealthCheckIntervalSeconds: int32OrNil(h.Interval),
		HealthyThresholdCount:      int32OrNil(h.HealthyThreshold),
		UnhealthyThresholdCount:    int32OrNil(h.UnhealthyThreshold),
	})
	return err
}

// int32OrNil converts a number for the SDK; 0 becomes nil and is left out of the request.
func int32OrNil(n int) *int32 {
	if n == 0 {
		return nil
	}
	return number(n)
}
