package kinds

import (
	"context"
	"fmt"
	"strconv"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
)

// Listener is a port of a load balancer.
type Listener struct {
	// LoadBalancer is the "id" of the load balancer's node.
	LoadBalancer resource.Value `res:"replace" tf:"load_balancer_arn"`
	// LoadBalancerName is the Name of LoadBalancer, which is used to find it
	// while its ARN is not known.
	LoadBalancerName string `res:"replace"`
	Port             int    `res:"forbid" tf:"port"`
	// Protocol is "TCP" or "TLS".
	Protocol       string `tf:"protocol"`
	CertificateARN string `tf:"certificate_arn"`
	// SSLPolicy is the set of ciphers; empty for AWS' default.
	SSLPolicy     string         `res:"default" tf:"ssl_policy"`
	DefaultAction ListenerAction `tf:"default_action,block"`

	ARN string `res:"out,id" out:"arn"`
	ID  string `res:"out,id" out:"id"` // the ARN
}

// ListenerAction specifies where a listener sends connections.
type ListenerAction struct {
	TargetGroup resource.Value `tf:"target_group_arn"`
	Type        string         `tf:"type"` // "forward"
}

// Listeners is the kind of Listener.
var Listeners = resource.Kind[Listener, *Client]{
	Name:   "aws_lb_listener",
	API:    apiELB,
	Tasks:  []string{"NetworkLoadBalancerListener"},
	Key:    func(l *Listener) string { return l.LoadBalancerName + portMark + strconv.Itoa(l.Port) },
	List:   listListeners,
	Create: createListener,
	Update: []resource.Setter[Listener, *Client]{
		{Fields: []string{"Protocol", "CertificateARN", "SSLPolicy", "DefaultAction"}, Set: updateListener},
	},
	Delete: func(ctx context.Context, c *Client, l *Listener) error {
		_, err := c.ELB.DeleteListener(ctx, &elb.DeleteListenerInput{ListenerArn: &l.ARN})
		return fault.IgnoreGone(err)
	},
}

// portMark separates load balancer and port in a key.
const portMark = ":"

func listListeners(ctx context.Context, c *Client, s resource.Scope) ([]*Listener, error) {
	balancers, err := describeBalancers(ctx, c, s, keyParts(s.Names, portMark))
	if err != nil {
		return nil, err
	}
	return observe.EachOf(ctx, balancers, func(ctx context.Context, b taggedObject[elbtypes.LoadBalancer]) ([]*Listener, error) {
		found, err := pages(ctx, elb.NewDescribeListenersPaginator(c.ELB, &elb.DescribeListenersInput{LoadBalancerArn: b.object.LoadBalancerArn}),
			func(p *elb.DescribeListenersOutput) []elbtypes.Listener { return p.Listeners })
		if fault.IgnoreGone(err) != nil {
			return nil, fmt.Errorf("describe the listeners of %s: %w", *b.object.LoadBalancerName, err)
		}
		out := make([]*Listener, len(found))
		for i, l := range found {
			out[i] = observedListener(l)
		}
		return out, nil
	})
}

func observedListener(got elbtypes.Listener) *Listener {
	l := &Listener{
		LoadBalancer:     resource.Lit(*got.LoadBalancerArn),
		LoadBalancerName: balancerName(*got.LoadBalancerArn),
		Port:             int(deref(got.Port)),
		Protocol:         string(got.Protocol),
		SSLPolicy:        deref(got.SslPolicy),
		ARN:              *got.ListenerArn,
		ID:               *got.ListenerArn,
	}
	for _, c := range got.Certificates { // at most one, the default
		l.CertificateARN = deref(c.CertificateArn)
	}
	for _, a := range got.DefaultActions { // exactly one
		l.DefaultAction = ListenerAction{TargetGroup: resource.Lit(deref(a.TargetGroupArn)), Type: string(a.Type)}
	}
	return l
}

func createListener(ctx context.Context, c *Client, l *Listener) error {
	out, err := c.ELB.CreateListener(ctx, &elb.CreateListenerInput{
		LoadBalancerArn: new(l.LoadBalancer.Text()),
		Port:            number(l.Port),
		Protocol:        elbtypes.ProtocolEnum(l.Protocol),
		Certificates:    l.certificates(),
		SslPolicy:       stringOrNil(l.SSLPolicy),
		DefaultActions:  l.actions(),
	})
	if err != nil {
		return err
	}
	l.ARN, l.ID = *out.Listeners[0].ListenerArn, *out.Listeners[0].ListenerArn
	return nil
}

func updateListener(ctx context.Context, c *Client, have, want *Listener) error {
	_, err := c.ELB.ModifyListener(ctx, &elb.ModifyListenerInput{
		ListenerArn:    &have.ARN,
		Port:           number(want.Port),
		Protocol:       elbtypes.ProtocolEnum(want.Protocol),
		Certificates:   want.certificates(),
		SslPolicy:      stringOrNil(want.SSLPolicy),
		DefaultActions: want.actions(),
	})
	return err
}

func (l *Listener) certificates() []elbtypes.Certificate {
	if l.CertificateARN == "" {
		return nil
	}
	return []elbtypes.Certificate{{CertificateArn: &l.CertificateARN}}
}

func (l *Listener) actions() []elbtypes.Action {
	return []elbtypes.Action{{Type: elbtypes.ActionTypeEnum(l.DefaultAction.Type), TargetGroupArn: stringOrNil(l.DefaultAction.TargetGroup.Text())}}
}
