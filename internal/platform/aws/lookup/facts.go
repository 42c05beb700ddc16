package lookup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// Facts looks up facts in AWS. Objects in the query that do not exist are reported as a diag.List
// with one finding for each ask. In m, which may be nil, it caches facts that hardly ever change,
// but never that something is missing.
func Facts(ctx context.Context, c awsapi.Clients, m past.Memo, q Query) (*facts.Facts, error) {
	a := &resolver{Clients: c, past: m, query: q, facts: &facts.Cloud{Region: c.Region}}
	if err := platform.AskAll(ctx, a.lookups()); err != nil {
		return nil, fmt.Errorf("look up facts in AWS region %s: %w", c.Region, err)
	}
	return asks.Answer(api.CloudAWS, a.facts, a.own, a.missingFindings())
}

// resolver is the state of one lookup. The lookups run concurrently; each sets its own fields of got.
type resolver struct {
	awsapi.Clients
	past  past.Memo
	query Query
	facts *facts.Cloud
	own   spec.Facts
}

// lookups returns the lookups that the query needs.
func (a *resolver) lookups() []func(context.Context) error {
	q := []func(context.Context) error{a.identity, a.zones}
	add := func(wanted int, f func(context.Context) error) {
		if wanted > 0 {
			q = append(q, f)
		}
	}
	add(len(a.query.Images), a.images)
	add(len(a.query.MachineTypes)+len(a.query.Candidates), a.machineTypes)
	add(len(a.query.Hosts), a.dnsZones)
	add(len(a.query.Network.Name), a.vpc)
	add(len(a.query.Subnets), a.subnets)
	add(len(a.query.Profiles), a.profiles)
	add(len(a.query.Addresses), a.addresses)
	add(len(a.query.Buckets), a.buckets)
	return q
}

func (a *resolver) identity(ctx context.Context) error {
	c := a.Clients // a copy: the caller's client must not change
	err := c.Identify(ctx)
	a.own.AccountID, a.own.Partition = c.AccountID, c.Partition
	return err
}

// missingFindings returns findings for asks without a result.
func (a *resolver) missingFindings() diag.List {
	var out diag.List
	absent := func(list []asks.Reference, found func(string) bool, rule, what, remedy string) {
		out = append(out, asks.Missing(list, found, rule, what, remedy)...)
	}
	in := " in region " + a.Region
	absent(a.query.Zones, func(n string) bool { return slices.Contains(a.facts.Zones, n) },
		"zone-exists", "there is no such availability zone"+in, "choose among "+strings.Join(a.facts.Zones, ", "))
	absent(a.query.Images, asks.Has(a.facts.Images),
		"image-exists", "there is no such machine image"+in, "use an AMI ID, owner/name, the name of your own image, or ssm:/path")
	absent(a.query.MachineTypes, asks.Has(a.facts.MachineTypes),
		"machine-type-exists", "there is no such machine type"+in, "check the spelling, or choose a type that the region offers")
	absent(a.query.Subnets, asks.Has(a.facts.Subnets), "subnet-exists", "there is no such subnet"+in, "check the id and the account")
	absent(a.query.Profiles, asks.Has(a.own.InstanceProfiles), "profile-exists", "there is no such instance profile with a role", "check the name and the account")
	absent(a.query.Addresses, asks.Has(a.own.ElasticIPs), "address-exists", "the account has no such elastic IP address"+in, "check the address and the region")
	if v := a.query.Network; v.Name != "" {
		absent([]asks.Reference{v}, asks.Has(a.facts.Networks), "vpc-exists", "there is no such VPC"+in, "check the id and the account")
	}
	return append(out, asks.NotOffered(a.query.MachineTypes, a.facts.MachineTypes, "choose another type, or subnets in ")...)
}
