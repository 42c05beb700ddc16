package control

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/aws/awscloud"
)

const (
	// rosterPeriod is how often EC2 is asked which machines are gone: one question for
	// 200 nodes, of a quota that the account shares.
	rosterPeriod = 30 * time.Second
	// mostValues is how many values a filter has at the most (EC2 API, DescribeInstances).
	mostValues = 200
	// unheard is for how long EC2 must not know a machine before it counts as gone: EC2 may not
	// show new instances everywhere at once. It shows terminated ones for an hour.
	unheard = 5 * time.Minute
)

var instanceID = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// roster tells which nodes have lost their instances. Nodes are known by their names,
// which their certificates hold: anything else a kubelet says of itself. Those that are
// named in another way than the node of this process are left alone.
type roster struct {
	instances
	// self is the node that this process runs on, without whose machine an answer of EC2
	// is not trusted.
	self string
	now  func() time.Time
	// missed is since when EC2 does not know the machine of a node.
	missed map[string]time.Time
}

var _ controller.Machines = (*roster)(nil)

// Gone returns the nodes whose instances are terminated, or that EC2 does not know.
func (r *roster) Gone(ctx context.Context, nodes []*corev1.Node) ([]string, error) {
	var ask []string
	for _, n := range nodes {
		if byID(n.Name) == byID(r.self) && (byID(n.Name) || strings.HasPrefix(n.Spec.ProviderID, "aws:///")) {
			ask = append(ask, n.Name)
		}
	}
	states, err := r.states(ctx, ask)
	if err != nil {
		return nil, err
	}
	var out []string
	missed := map[string]time.Time{}
	for _, name := range ask {
		state, known := states[name]
		since, before := r.missed[name]
		if !before {
			since = r.now()
		}
		switch {
		case state == ec2types.InstanceStateNameTerminated:
			out = append(out, name)
		case known:
		case r.now().Sub(since) >= unheard:
			out = append(out, name)
		default:
			missed[name] = since
		}
	}
	r.missed = missed
	return out, nil
}

// Alive returns the names that an instance has. Identifiers are never given again, and
// private names are.
func (r *roster) Alive(ctx context.Context, names []string) ([]string, error) {
	again := slices.DeleteFunc(slices.Clone(names), byID)
	if byID(r.self) || len(again) == 0 {
		return nil, nil
	}
	states, err := r.states(ctx, again)
	return slices.DeleteFunc(again, func(n string) bool { _, known := states[n]; return !known }), err
}

// byID reports whether the name of a node is the identifier of its instance.
func byID(node string) bool { return instanceID.MatchString(node) }

// states asks EC2 for the instances of nodes, which are all named as this process's node is: by
// their identifiers, with any tags; or by their addresses, which other networks may have too,
// among the cluster's instances. Terminated ones no longer have an address.
func (r *roster) states(ctx context.Context, nodes []string) (map[string]ec2types.InstanceStateName, error) {
	filters := []ec2types.Filter{{Name: aws.String("instance-id")}}
	name := func(m ec2types.Instance) string { return aws.ToString(m.InstanceId) }
	if !byID(r.self) {
		filters = []ec2types.Filter{{Name: aws.String("private-dns-name")}, {Name: aws.String("tag:" + awscloud.ClusterTag), Values: []string{r.cluster}}}
		name = func(m ec2types.Instance) string { return aws.ToString(m.PrivateDnsName) }
	}
	out := map[string]ec2types.InstanceStateName{}
	for batch := range slices.Chunk(nodes, mostValues-1) {
		filters[0].Values = append(slices.Clone(batch), r.self)
		found, err := r.list(ctx, filters)
		if err != nil {
			return nil, fmt.Errorf("ask EC2 which machines are gone: %w", err)
		}
		own := false
		for _, m := range found {
			if m.State != nil {
				out[name(m)] = m.State.Name
				own = own || name(m) == r.self && running(m)
			}
		}
		if !own {
			return nil, fmt.Errorf("EC2 does not tell of %s, on which this runs, and so is not believed", r.self)
		}
	}
	return out, nil
}
