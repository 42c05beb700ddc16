package rehearsal

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"kops.local/kops/internal/platform/rehearsal"
)

// wanted returns what the emulator's state asks of this host.
func (p *play) wanted(now snapshot) rehearsal.Wanted {
	w := rehearsal.Wanted{Disks: now.disks(), Balancers: now.wantedBalancers(), Routes: now.routes, Zones: now.zones}
	for _, id := range slices.Sorted(maps.Keys(now.instances)) {
		i := now.instances[id]
		m := rehearsal.WantedMachine{Name: id, Address: i.Address, Network: i.VPC, Hosts: i.privateNames(),
			Boot: func(ctx context.Context) (rehearsal.Boot, error) { return p.boot(ctx, i) },
			Died: func(ctx context.Context) error { return p.terminate(ctx, id) }}
		m.Public, _ = netip.ParseAddr(aws.ToString(i.PublicIpAddress)) // many have none
		if aws.ToBool(i.SourceDestCheck) {
			m.Own = i.ownAddresses()
		}
		w.Machines = append(w.Machines, m)
	}
	return w
}

// privateDomain is the domain of the private names of instances in the region.
const privateDomain = ".ec2.internal"

// privateNames returns the names that resolve to an instance's private address.
func (i *instance) privateNames() []string {
	out := []string{aws.ToString(i.InstanceId) + privateDomain}
	if name := aws.ToString(i.PrivateDnsName); strings.HasSuffix(name, privateDomain) {
		out = append(out, name)
	}
	return out
}

// boot returns what an instance boots from.
func (p *play) boot(ctx context.Context, i *instance) (b rehearsal.Boot, err error) {
	id := aws.ToString(i.InstanceId)
	if b.UserData, err = p.userData(ctx, id); err != nil {
		return b, err
	}
	if b.MemoryMiB, err = p.sizes.memory(ctx, p.clients.EC2, i.InstanceType); err != nil {
		return b, err
	}
	p.log.Info("an instance starts", "instance", id, "type", i.InstanceType, "address", i.Address, "group", i.Group)
	return b, nil
}

// terminate terminates an instance whose machine has died, as a group does with an instance that
// fails its checks.
func (p *play) terminate(ctx context.Context, id string) error {
	_, err := p.clients.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	p.keeper.Trigger()
	return err
}

// wantedBalancers returns the load balancers that this host emulates: each gets an address in one of
// its subnets, because the emulator gives them none.
func (s snapshot) wantedBalancers() []rehearsal.WantedBalancer {
	var out []rehearsal.WantedBalancer
	for _, b := range s.balancers {
		w := rehearsal.WantedBalancer{Name: b.name, Hosts: []string{b.host, "dualstack." + b.host}}
		for _, id := range b.subnets {
			if cidr, err := netip.ParsePrefix(aws.ToString(s.subnets[id].CidrBlock)); err == nil {
				w.Subnets = append(w.Subnets, cidr)
			}
		}
		for _, f := range b.fronts {
			w.Fronts = append(w.Fronts, rehearsal.WantedFront{Port: f.port, Target: f.target, Machines: f.instances})
		}
		out = append(out, w)
	}
	return out
}
