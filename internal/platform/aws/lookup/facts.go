package lookup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// Facts asks AWS. What the query names and does not exist is reported as a
// diag.List with one finding for each who asked.
// What hardly ever changes is remembered in m, which may be nil; never that something
// is missing.
func Facts(ctx context.Context, c awsapi.Clients, m past.Memo, q Query) (*facts.Facts, error) {
	a := &asker{Clients: c, past: m, query: q, got: &facts.Cloud{Region: c.Region}}
	g, ctx := errgroup.WithContext(ctx)
	for _, question := range a.questions() {
		g.Go(func() error { return fault.Retry(ctx, clock.Sleep, func() error { return question(ctx) }) })
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("look up facts in AWS region %s: %w", c.Region, err)
	}
	if err := a.missing().Err(); err != nil {
		return nil, err
	}
	if err := a.got.SetOwn(a.own); err != nil {
		return nil, err
	}
	return &facts.Facts{Clouds: map[string]*facts.Cloud{string(api.CloudAWS): a.got}}, nil
}

// asker is the state of one look-up. Questions run at once; each fills fields
// of got that are its own.
type asker struct {
	awsapi.Clients
	past  past.Memo
	query Query
	got   *facts.Cloud
	own   spec.Facts
}

// questions lists what must be asked.
func (a *asker) questions() []func(context.Context) error {
	q := []func(context.Context) error{a.identity, a.zones}
	add := func(wanted int, f func(context.Context) error) {
		if wanted > 0 {
			q = append(q, f)
		}
	}
	add(len(a.query.Images), a.images)
	add(len(a.query.MachineTypes)+len(a.query.Candidates), a.machineTypes)
	add(len(a.query.Hosts), a.dnsZones)
	add(len(a.query.VPC.Name), a.vpc)
	add(len(a.query.Subnets), a.subnets)
	add(len(a.query.Profiles), a.profiles)
	add(len(a.query.Addresses), a.addresses)
	add(len(a.query.Buckets), a.buckets)
	return q
}

func (a *asker) identity(ctx context.Context) error {
	c := a.Clients // a copy: this client is the caller's
	err := c.Identify(ctx)
	a.own.AccountID, a.own.Partition = c.AccountID, c.Partition
	return err
}

// missing reports the asks that found nothing.
func (a *asker) missing() diag.List {
	var out diag.List
	absent := func(list []asks.Ask, found func(string) bool, rule, what, remedy string) {
		out = append(out, asks.Absent(list, found, rule, what, remedy)...)
	}
	in := " in region " + a.Region
	absent(a.query.Zones, func(n string) bool { return slices.Contains(a.got.Zones, n) },
		"zone-exists", "there is no such availability zone"+in, "choose among "+strings.Join(a.got.Zones, ", "))
	absent(a.query.Images, asks.Has(a.got.Images),
		"image-exists", "there is no such machine image"+in, "write an AMI id, owner/name, a name of your own, or ssm:/path")
	absent(a.query.MachineTypes, asks.Has(a.got.MachineTypes),
		"machine-type-exists", "there is no such machine type"+in, "check the spelling, or choose a type that the region offers")
	absent(a.query.Subnets, asks.Has(a.got.Subnets), "subnet-exists", "there is no such subnet"+in, "check the id and the account")
	absent(a.query.Profiles, asks.Has(a.own.InstanceProfiles), "profile-exists", "there is no such instance profile with a role", "check the name and the account")
	absent(a.query.Addresses, asks.Has(a.own.ElasticIPs), "address-exists", "the account has no such elastic IP address"+in, "check the address and the region")
	if v := a.query.VPC; v.Name != "" {
		absent([]asks.Ask{v}, asks.Has(a.got.Networks), "vpc-exists", "there is no such VPC"+in, "check the id and the account")
	}
	return append(out, asks.NotOffered(a.query.MachineTypes, a.got.MachineTypes, "choose another type, or subnets in ")...)
}
