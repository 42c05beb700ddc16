package control

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/route53/types"

	"kops.local/kops/internal/node/dns/records"
)

const (
	// maxCharacters limits the values of a batch; the values of an UPSERT count twice (Developer
	// Guide, Quotas).
	maxCharacters = 32000
	// maxRecords is the maximum number of records in a page of a zone (API reference,
	// ListResourceRecordSets).
	maxRecords int32 = 300
	zonePrefix       = "/hostedzone/"
)

// zones is Route 53 as a DNS provider for dns-controller.
type zones struct {
	api   *route53.Client
	batch int
}

// openRoute53 connects to Route 53, which is the same in every region of a partition.
func openRoute53(ctx context.Context, _ func(string) string, batch int) (records.Provider, error) {
	cfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRetryMaxAttempts(5))
	if err == nil && cfg.Region == "" { // a role of the pod's own is assumed in a region; without a role, the configuration has the region already
		cfg, err = awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRetryMaxAttempts(5), awsconfig.WithRegion(ownRegion(ctx, cfg)))
	}
	if err != nil {
		return nil, fmt.Errorf("reach AWS: %w", err)
	}
	return &zones{api: route53.NewFromConfig(cfg), batch: batch}, nil
}

// ownRegion returns the region of this machine, or a default one if it is not in EC2.
func ownRegion(ctx context.Context, cfg aws.Config) string {
	asking, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if out, err := imds.NewFromConfig(cfg).GetRegion(asking, &imds.GetRegionInput{}); err == nil {
		return out.Region
	}
	return "us-east-1"
}

// Zones lists the hosted zones of the account.
func (z *zones) Zones(ctx context.Context) ([]records.Zone, error) {
	var out []records.Zone
	for p := route53.NewListHostedZonesPaginator(z.api, &route53.ListHostedZonesInput{}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, h := range page.HostedZones {
			out = append(out, records.Zone{ID: strings.TrimPrefix(aws.ToString(h.Id), zonePrefix), Name: records.Canonical(aws.ToString(h.Name))})
		}
	}
	return out, nil
}

// Records lists the record sets of a hosted zone.
func (z *zones) Records(ctx context.Context, zone records.Zone, _ []string) ([]records.Set, error) {
	var out []records.Set
	in := &route53.ListResourceRecordSetsInput{HostedZoneId: &zone.ID, MaxItems: aws.Int32(maxRecords)}
	for {
		page, err := z.api.ListResourceRecordSets(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, r := range page.ResourceRecordSets {
			out = append(out, toSet(r))
		}
		if !page.IsTruncated {
			return out, nil
		}
		in.StartRecordName, in.StartRecordType, in.StartRecordIdentifier = page.NextRecordName, page.NextRecordType, page.NextRecordIdentifier
	}
}

// toSet converts a record set. It is opaque if this program cannot write it: an alias, or a
// set with an identifier or a health check.
func toSet(r types.ResourceRecordSet) records.Set {
	var values []string
	for _, v := range r.ResourceRecords {
		values = append(values, aws.ToString(v.Value))
	}
	s := records.ParseSet(aws.ToString(r.Name), string(r.Type), int(aws.ToInt64(r.TTL)), values...)
	s.Opaque = r.AliasTarget != nil || r.SetIdentifier != nil || r.HealthCheckId != nil
	return s
}

// Apply makes changes in batches as large as Route 53 allows; it applies
// a batch completely or not at all.
func (z *zones) Apply(ctx context.Context, zone records.Zone, changes []records.Change) error {
	for _, batch := range z.batches(changes) {
		_, err := z.api.ChangeResourceRecordSets(ctx, &route53.ChangeResourceRecordSetsInput{HostedZoneId: &zone.ID,
			ChangeBatch: &types.ChangeBatch{Changes: batch, Comment: aws.String("dns-controller")}})
		if err != nil {
			return err
		}
	}
	return nil
}

// batches never splits the record sets of one name. A value counts once, or twice in an UPSERT.
func (z *zones) batches(changes []records.Change) [][]types.Change {
	size := func(c records.Change) []int {
		values, characters := 0, 0
		add := func(sets []records.Set, times int) {
			for _, s := range sets {
				values += times * len(s.Values)
				for _, text := range s.Values {
					characters += times * len(text)
				}
			}
		}
		add(c.Delete, 1)
		add(c.Upsert, 2)
		return []int{values, characters}
	}
	var out [][]types.Change
	for _, batch := range records.Batches(changes, size, z.batch, maxCharacters) {
		var all []types.Change
		for _, c := range batch {
			for _, s := range c.Delete {
				all = append(all, types.Change{Action: types.ChangeActionDelete, ResourceRecordSet: toRecordSet(s)})
			}
			for _, s := range c.Upsert {
				all = append(all, types.Change{Action: types.ChangeActionUpsert, ResourceRecordSet: toRecordSet(s)})
			}
		}
		out = append(out, all)
	}
	return out
}

func toRecordSet(s records.Set) *types.ResourceRecordSet {
	out := &types.ResourceRecordSet{Name: aws.String(s.Name), Type: types.RRType(s.Type), TTL: aws.Int64(int64(s.TTL))}
	for _, v := range s.Texts() {
		out.ResourceRecords = append(out.ResourceRecords, types.ResourceRecord{Value: aws.String(v)})
	}
	return out
}
