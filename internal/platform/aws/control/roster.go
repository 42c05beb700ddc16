package control

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/platform/aws/awscloud"
	"kops.local/kops/internal/platform/incluster/roster"
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

// newRoster reports which nodes have lost their instances, on the node self. Nodes are identified by
// their names, which are in their certificates: all other data is reported by the kubelet. Nodes with
// a different kind of name than self are ignored.
func newRoster(i instances, self string, now func() time.Time) *roster.Roster {
	byID := isNamedByID(self)
	return &roster.Roster{
		Source: "EC2's list of machines", Self: self, Batch: maxValues, Grace: goneAfter, Now: now,
		List: func(ctx context.Context, nodes []string) ([]roster.Machine, error) { return i.named(ctx, nodes, byID) },
		Judges: func(n *corev1.Node) bool {
			return isNamedByID(n.Name) == byID && (byID || strings.HasPrefix(n.Spec.ProviderID, "aws:///"))
		},
		// Identifiers are never reused, but private names are.
		Reuses: func(node string) bool { return !byID && !isNamedByID(node) },
	}
}

// isNamedByID reports whether the name of a node is the identifier of its instance.
func isNamedByID(node string) bool { return instanceID.MatchString(node) }

// named lists the instances of nodes which are all named in the same way: by their identifiers, with
// any tags; or by their addresses, among the cluster's instances, because other networks may have the
// same addresses. Terminated instances no longer have an address.
func (i instances) named(ctx context.Context, nodes []string, byID bool) ([]roster.Machine, error) {
	filters := []ec2types.Filter{{Name: aws.String("instance-id"), Values: nodes}}
	name := func(m ec2types.Instance) string { return aws.ToString(m.InstanceId) }
	if !byID {
		filters = []ec2types.Filter{{Name: aws.String("private-dns-name"), Values: nodes}, {Name: aws.String("tag:" + awscloud.ClusterTag), Values: []string{i.cluster}}}
		name = func(m ec2types.Instance) string { return aws.ToString(m.PrivateDnsName) }
	}
	found, err := i.list(ctx, filters)
	if err != nil {
		return nil, fmt.Errorf("find terminated machines in EC2: %w", err)
	}
	var out []roster.Machine
	for _, m := range found {
		if m.State != nil {
			out = append(out, roster.Machine{ID: aws.ToString(m.InstanceId), Node: name(m), State: state(m), Status: string(m.State.Name)})
		}
	}
	return out, nil
}

// state converts the state of an instance.
func state(m ec2types.Instance) roster.State {
	switch {
	case isRunning(m):
		return roster.Running
	case m.State.Name == ec2types.InstanceStateNameTerminated:
		return roster.Ended
	default:
		return roster.Stopped
	}
}
