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
	// rosterPeriod is how often EC2 is asked for terminated machines: one request for 200 nodes,
	// from a quota that the account shares.
	rosterPeriod = 30 * time.Second
	// maxValues is the maximum number of values in a filter (EC2 API, DescribeInstances).
	maxValues = 200
	// goneAfter is how long a machine must be missing in EC2 before it counts as gone: EC2 may not
	// show new instances everywhere immediately. It shows terminated ones for an hour.
	goneAfter = 5 * time.Minute
)

var instanceID = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// roster reports which nodes have lost their instances. Nodes are identified by their names, which
// are in their certificates: all other data is reported by the kubelet. Nodes with a different kind
// of name than this process's node are ignored.
type roster struct {
	instances
	// self is the node that this process runs on: a response of EC2 without
	// its machine is not trusted.
	self string
	now  func() time.Time
	// missingSince is the time since when the machine of a node is missing in EC2.
	missingSince map[string]time.Time
}

var _ controller.Machines = (*roster)(nil)

// ListTerminated returns the nodes whose instances are terminated or missing in EC2.
func (r *roster) ListTerminated(ctx context.Context, nodes []*corev1.Node) ([]string, error) {
	var ask []string
	for _, n := range nodes {
		if isNamedByID(n.Name) == isNamedByID(r.self) && (isNamedByID(n.Name) || strings.HasPrefix(n.Spec.ProviderID, "aws:///")) {
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
		since, before := r.missingSince[name]
		if !before {
			since = r.now()
		}
		switch {
		case state == ec2types.InstanceStateNameTerminated:
			out = append(out, name)
		case known:
		case r.now().Sub(since) >= goneAfter:
			out = append(out, name)
		default:
			missed[name] = since
		}
	}
	r.missingSince = missed
	return out, nil
}

// ListExisting returns the names that an instance currently has. Identifiers
// are never reused, but private names are.
func (r *roster) ListExisting(ctx context.Context, names []string) ([]string, error) {
	again := slices.DeleteFunc(slices.Clone(names), isNamedByID)
	if isNamedByID(r.self) || len(again) == 0 {
		return nil, nil
	}
	states, err := r.states(ctx, again)
	return slices.DeleteFunc(again, func(n string) bool { _, known := states[n]; return !known }), err
}

// isNamedByID reports whether the name of a node is the identifier of its instance.
func isNamedByID(node string) bool { return instanceID.MatchString(node) }

// states returns the states of the nodes' instances in EC2. Nodes are all named as this process's
// node is: by their identifiers, with any tags; or by their addresses, among the cluster's
// instances, because other networks may have the same addresses. Terminated instances no longer
// have an address.
func (r *roster) states(ctx context.Context, nodes []string) (map[string]ec2types.InstanceStateName, error) {
	filters := []ec2types.Filter{{Name: aws.String("instance-id")}}
	name := func(m ec2types.Instance) string { return aws.ToString(m.InstanceId) }
	if !isNamedByID(r.self) {
		filters = []ec2types.Filter{{Name: aws.String("private-dns-name")}, {Name: aws.String("tag:" + awscloud.ClusterTag), Values: []string{r.cluster}}}
		name = func(m ec2types.Instance) string { return aws.ToString(m.PrivateDnsName) }
	}
	out := map[string]ec2types.InstanceStateName{}
	for batch := range slices.Chunk(nodes, maxValues-1) {
		filters[0].Values = append(slices.Clone(batch), r.self)
		found, err := r.list(ctx, filters)
		if err != nil {
			return nil, fmt.Errorf("find terminated machines in EC2: %w", err)
		}
		own := false
		for _, m := range found {
			if m.State != nil {
				out[name(m)] = m.State.Name
				own = own || name(m) == r.self && isRunning(m)
			}
		}
		if !own {
			return nil, fmt.Errorf("EC2's list of machines lacks %s, where this runs, so the list is ignored", r.self)
		}
	}
	return out, nil
}
