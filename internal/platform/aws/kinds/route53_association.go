package kinds

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	dnstypes "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
)

// ZoneAssociation makes a private zone resolvable in a VPC.
type ZoneAssociation struct {
	ZoneID string         `res:"forbid" tf:"zone_id"` // "/hostedzone/" and the zone's identifier
	VPC    resource.Value `res:"replace" tf:"vpc_id"`
}

// ZoneAssociations is the kind of ZoneAssociation.
var ZoneAssociations = resource.Kind[ZoneAssociation, *Client]{
	Name:   "aws_route53_zone_association",
	API:    apiRoute53,
	Phase:  resource.Network,
	Tasks:  []string{"DNSZone"},
	Key:    func(a *ZoneAssociation) string { return a.ZoneID + vpcMark + nameOf(a.VPC) },
	List:   listAssociations,
	Create: createAssociation,
	Delete: deleteAssociation,
}

// vpcMark separates zone and VPC in a key.
const vpcMark = "="

// zonePrefix is the prefix of zone identifiers; some responses omit it.
const zonePrefix = "/hostedzone/"

// listAssociations returns the associations of the wanted zones with the cluster's VPC or, for a
// deletion, of all zones with a VPC that will be deleted.
func listAssociations(ctx context.Context, c *Client, s resource.Scope) ([]*ZoneAssociation, error) {
	if len(s.Names) == 0 && !s.All {
		return nil, nil
	}
	vpcs, err := ownVPCs(ctx, c, s.Cluster)
	if err != nil {
		return nil, err
	}
	if s.All {
		return observe.EachOf(ctx, vpcs, func(ctx context.Context, vpc string) ([]*ZoneAssociation, error) {
			return associationsOf(ctx, c, vpc)
		})
	}
	for _, key := range s.Names {
		if _, vpc, _ := cutLast(key, vpcMark); isVPC(vpc) {
			vpcs = append(vpcs, vpc)
		}
	}
	return observe.EachOf(ctx, keyParts(s.Names, vpcMark), func(ctx context.Context, zone string) ([]*ZoneAssociation, error) {
		out, err := c.Route53.GetHostedZone(ctx, &route53.GetHostedZoneInput{Id: &zone})
		if err != nil {
			return nil, fault.IgnoreGone(fmt.Errorf("describe the zone %s: %w", zone, err))
		}
		var list []*ZoneAssociation
		for _, v := range out.VPCs {
			if slices.Contains(vpcs, *v.VPCId) {
				list = append(list, &ZoneAssociation{ZoneID: zone, VPC: resource.Lit(*v.VPCId)})
			}
		}
		return list, nil
	})
}

func isVPC(id string) bool { return regexp.MustCompile(`^vpc-[0-9a-f]+$`).MatchString(id) }

// ownVPCs returns the identifiers of the VPCs that the cluster owns.
func ownVPCs(ctx context.Context, c *Client, cluster string) ([]string, error) {
	out, err := c.EC2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{
		Filters: []ec2types.Filter{{Name: new("tag:" + TagOwnerPrefix + cluster), Values: []string{Owned}}}})
	if err != nil {
		return nil, fmt.Errorf("find the cluster's VPC: %w", err)
	}
	ids := make([]string, len(out.Vpcs))
	for i, v := range out.Vpcs {
		ids[i] = *v.VpcId
	}
	return ids, nil
}

// associationsOf lists the zones of a VPC that users created, without those of AWS' services.
func associationsOf(ctx context.Context, c *Client, vpc string) ([]*ZoneAssociation, error) {
	var list []*ZoneAssociation
	in := &route53.ListHostedZonesByVPCInput{VPCId: &vpc, VPCRegion: dnstypes.VPCRegion(c.Region)}
	for {
		out, err := c.Route53.ListHostedZonesByVPC(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list the zones of %s: %w", vpc, err)
		}
		for _, z := range out.HostedZoneSummaries {
			if z.Owner == nil || z.Owner.OwningService == nil {
				list = append(list, &ZoneAssociation{ZoneID: zonePrefix + lastSegment(*z.HostedZoneId), VPC: resource.Lit(vpc)})
			}
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return list, nil
		}
	}
}

func createAssociation(ctx context.Context, c *Client, a *ZoneAssociation) error {
	_, err := c.Route53.AssociateVPCWithHostedZone(ctx, &route53.AssociateVPCWithHostedZoneInput{
		HostedZoneId: &a.ZoneID, VPC: &dnstypes.VPC{VPCId: new(a.VPC.Text()), VPCRegion: dnstypes.VPCRegion(c.Region)}})
	return err
}

// deleteAssociation leaves a zone's last association, because a private zone must have one; it does
// not prevent the VPC's deletion.
func deleteAssociation(ctx context.Context, c *Client, a *ZoneAssociation) error {
	_, err := c.Route53.DisassociateVPCFromHostedZone(ctx, &route53.DisassociateVPCFromHostedZoneInput{
		HostedZoneId: &a.ZoneID, VPC: &dnstypes.VPC{VPCId: new(a.VPC.Text()), VPCRegion: dnstypes.VPCRegion(c.Region)}})
	if hasCode(err, "LastVPCAssociation", "VPCAssociationNotFound") {
		return nil
	}
	return fault.IgnoreGone(err)
}
