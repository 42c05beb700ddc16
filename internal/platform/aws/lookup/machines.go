package lookup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/facts"
)

func (a *resolver) zones(ctx context.Context) error {
	key := "zones/" + a.Region
	known, ok := past.Recall[[]string](a.past, key)
	if ok && !slices.ContainsFunc(a.query.Zones, func(z asks.Reference) bool { return !slices.Contains(known, z.Name) }) {
		a.facts.Zones = known
		return nil
	}
	o, err := a.EC2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
	if err != nil {
		return fmt.Errorf("list the availability zones: %w", err)
	}
	a.facts.Zones = nil
	for _, z := range o.AvailabilityZones {
		a.facts.Zones = append(a.facts.Zones, aws.ToString(z.ZoneName))
	}
	slices.Sort(a.facts.Zones)
	past.Remember(a.past, key, a.facts.Zones)
	return nil
}

// maxTypes is the maximum number of values in a filter.
const maxTypes = 200

// machineTypes looks up types and where they are offered. It uses a filter, because a call that
// names a type that does not exist would fail.
func (a *resolver) machineTypes(ctx context.Context) error {
	wanted := asks.Distinct(append(asks.Names(a.query.MachineTypes), a.query.Candidates...)...)
	key := "machine types/" + a.Region + "/" + strings.Join(wanted, ",")
	if known, ok := past.Recall[map[string]facts.MachineType](a.past, key); ok {
		a.facts.MachineTypes = known
		return nil
	}
	found, zones := map[string]facts.MachineType{}, map[string][]string{}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return describeTypes(ctx, a.EC2, wanted, found)
	})
	g.Go(func() error {
		for some := range slices.Chunk(wanted, maxTypes) {
			if err := a.describeOfferings(ctx, some, zones); err != nil {
				return err
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return err
	}
	for name, t := range found {
		t.Zones = asks.Distinct(zones[name]...)
		found[name] = t
	}
	a.facts.MachineTypes = found
	if len(found) == len(wanted) {
		past.Remember(a.past, key, found)
	}
	return nil
}

func typeFilter(names []string) []types.Filter {
	return []types.Filter{{Name: aws.String("instance-type"), Values: names}}
}

// Types describes machine types, by name; types that do not exist in the region are left out.
func Types(ctx context.Context, client *ec2.Client, names []string) (map[string]facts.MachineType, error) {
	found := map[string]facts.MachineType{}
	return found, describeTypes(ctx, client, names, found)
}

func describeTypes(ctx context.Context, client *ec2.Client, names []string, into map[string]facts.MachineType) error {
	for some := range slices.Chunk(names, maxTypes) {
		p := ec2.NewDescribeInstanceTypesPaginator(client, &ec2.DescribeInstanceTypesInput{Filters: typeFilter(some)})
		for p.HasMorePages() {
			page, err := p.NextPage(ctx)
			if err != nil {
				return fmt.Errorf("describe machine types: %w", err)
			}
			for _, t := range page.InstanceTypes {
				into[string(t.InstanceType)] = machineType(t)
			}
		}
	}
	return nil
}

func (a *resolver) describeOfferings(ctx context.Context, names []string, into map[string][]string) error {
	p := ec2.NewDescribeInstanceTypeOfferingsPaginator(a.EC2, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: types.LocationTypeAvailabilityZone, Filters: typeFilter(names)})
	for p.HasMorePages() {
		page, err := p.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("find where machine types are offered: %w", err)
		}
		for _, o := range page.InstanceTypeOfferings {
			into[string(o.InstanceType)] = append(into[string(o.InstanceType)], aws.ToString(o.Location))
		}
	}
	return nil
}

func machineType(t types.InstanceTypeInfo) facts.MachineType {
	out := facts.MachineType{}
	if t.VCpuInfo != nil {
		out.VCPU = int(aws.ToInt32(t.VCpuInfo.DefaultVCpus))
	}
	if t.MemoryInfo != nil {
		out.MemoryMiB = int(aws.ToInt64(t.MemoryInfo.SizeInMiB))
	}
	if t.ProcessorInfo != nil {
		for _, arch := range t.ProcessorInfo.SupportedArchitectures {
			out.Architectures = append(out.Architectures, string(arch))
		}
	}
	if t.InstanceStorageInfo != nil {
		for _, d := range t.InstanceStorageInfo.Disks {
			for range aws.ToInt32(d.Count) {
				out.EphemeralDisks = append(out.EphemeralDisks, facts.EphemeralDisk{SizeGB: int(aws.ToInt64(d.SizeInGB))})
			}
		}
	}
	if t.GpuInfo != nil {
		out.GPU = slices.ContainsFunc(t.GpuInfo.Gpus, func(g types.GpuDeviceInfo) bool { return aws.ToString(g.Manufacturer) == "NVIDIA" })
	}
	if n := t.NetworkInfo; n != nil {
		out.Interfaces, out.IPsPerIface = int(aws.ToInt32(n.MaximumNetworkInterfaces)), int(aws.ToInt32(n.Ipv4AddressesPerInterface))
	}
	return out
}
