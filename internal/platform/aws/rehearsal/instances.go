package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// launchSettings is the part of its launch template that the emulator did not apply to an instance.
type launchSettings struct {
	// address is the allocation of its public address; empty if it has none.
	address string
}

// applyTemplates applies to instances the parts of their launch templates that the
// emulator does not: the instance profile and a public address. It
// releases the addresses of instances that no longer exist.
func (p *play) applyTemplates(ctx context.Context, now snapshot) error {
	var errs []error
	for id, g := range p.settings {
		if now.instances[id] != nil {
			continue
		}
		p.forgetInstance(id)
		if delete(p.settings, id); g.address != "" {
			_, err := p.clients.EC2.ReleaseAddress(ctx, &ec2.ReleaseAddressInput{AllocationId: aws.String(g.address)})
			errs = append(errs, err)
		}
	}
	for id, i := range now.instances {
		if _, done := p.settings[id]; done || i.Template == nil {
			continue
		}
		g, err := p.applyTemplate(ctx, now, i)
		if err != nil {
			errs = append(errs, fmt.Errorf("apply the launch template to %s: %w", id, err))
			continue
		}
		p.settings[id] = g
	}
	return errors.Join(errs...)
}

func (p *play) applyTemplate(ctx context.Context, now snapshot, i *instance) (launchSettings, error) {
	v, err := p.templateVersion(ctx, i.Template)
	if err != nil || v == nil {
		return launchSettings{}, err
	}
	p.rememberVersion(aws.ToString(i.InstanceId), v)
	data := v.LaunchTemplateData
	if profile := data.IamInstanceProfile; profile != nil && i.IamInstanceProfile == nil {
		got, err := p.clients.EC2.AssociateIamInstanceProfile(ctx, &ec2.AssociateIamInstanceProfileInput{InstanceId: i.InstanceId,
			IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: profile.Name, Arn: profile.Arn}})
		if err != nil {
			return launchSettings{}, err
		}
		i.IamInstanceProfile = got.IamInstanceProfileAssociation.IamInstanceProfile
	}
	if len(data.NetworkInterfaces) == 0 || !aws.ToBool(data.NetworkInterfaces[0].AssociatePublicIpAddress) || i.PublicIpAddress != nil {
		return launchSettings{}, nil
	}
	free, err := now.publicAddress()
	if err != nil {
		return launchSettings{}, err
	}
	a, err := p.clients.EC2.AllocateAddress(ctx, &ec2.AllocateAddressInput{Domain: types.DomainTypeVpc, Address: aws.String(free.String())})
	if err != nil {
		return launchSettings{}, err
	}
	if _, err := p.clients.EC2.AssociateAddress(ctx, &ec2.AssociateAddressInput{AllocationId: a.AllocationId, InstanceId: i.InstanceId}); err != nil {
		_, rerr := p.clients.EC2.ReleaseAddress(ctx, &ec2.ReleaseAddressInput{AllocationId: a.AllocationId}) // another one is allocated in the next pass
		return launchSettings{}, errors.Join(err, rerr)
	}
	i.PublicIpAddress = a.PublicIp
	return launchSettings{aws.ToString(a.AllocationId)}, nil
}

// publicAddresses is the range of instances' public addresses, reserved for documentation (RFC
// 5737). The emulator would choose loopback addresses.
var publicAddresses = netip.MustParsePrefix("198.51.100.0/24")

// publicAddress returns the first public address that no instance has.
func (s snapshot) publicAddress() (netip.Addr, error) {
	taken := map[string]bool{}
	for _, i := range s.instances {
		taken[aws.ToString(i.PublicIpAddress)] = true
	}
	for a := publicAddresses.Addr().Next(); publicAddresses.Contains(a); a = a.Next() {
		if !taken[a.String()] {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all public addresses of %s are taken", publicAddresses)
}

// sizes caches the memory sizes of instance types, in MiB.
type sizes struct {
	mu    sync.Mutex
	known map[types.InstanceType]int
}

func (s *sizes) memory(ctx context.Context, api *ec2.Client, t types.InstanceType) (int, error) {
	s.mu.Lock()
	mib, ok := s.known[t]
	s.mu.Unlock()
	if ok {
		return mib, nil
	}
	out, err := api.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{t}})
	if err != nil {
		return 0, fmt.Errorf("look up the memory of a %s: %w", t, err)
	}
	if len(out.InstanceTypes) != 1 || out.InstanceTypes[0].MemoryInfo == nil {
		return 0, fmt.Errorf("look up the memory of a %s: %w", t, errUnknownType)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[types.InstanceType]int{}
	}
	s.known[t] = int(aws.ToInt64(out.InstanceTypes[0].MemoryInfo.SizeInMiB))
	return s.known[t], nil
}

var errUnknownType = errors.New("the emulator does not know the type")
