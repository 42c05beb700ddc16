package kinds

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/route53"
	dnstypes "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// DNSRecord is the set of records of one name and type.
type DNSRecord struct {
	// ZoneID is "/hostedzone/" and the zone's identifier.
	ZoneID string `res:"forbid" tf:"zone_id"`
	Name   string `res:"forbid" tf:"name"` // lower case, without a trailing dot
	Type   string `res:"forbid" tf:"type"`
	TTL    int    `tf:"ttl"` // seconds; 0 for an alias
	// Records are the values, for a type A addresses; none for an alias.
	Records []resource.Value `tf:"records"`
	Alias   *DNSAlias        `tf:"alias,block"`
}

// DNSAlias makes a name resolve to the addresses of another name in AWS.
type DNSAlias struct {
	Name                 resource.Value `tf:"name"` // lower case
	ZoneID               resource.Value `tf:"zone_id"`
	EvaluateTargetHealth bool           `tf:"evaluate_target_health,zero"`
}

// DNSRecords is the kind of DNSRecord.
var DNSRecords = resource.Kind[DNSRecord, *Client]{
	Name:   "aws_route53_record",
	API:    apiRoute53,
	Tasks:  []string{"DNSName"},
	Key:    func(r *DNSRecord) string { return recordKey{r.ZoneID, r.Name, r.Type}.String() },
	List:   listRecords,
	Create: upsertRecord,
	Update: []resource.Setter[DNSRecord, *Client]{
		{Fields: []string{"TTL", "Records", "Alias"}, Set: func(ctx context.Context, c *Client, _, want *DNSRecord) error {
			return upsertRecord(ctx, c, want)
		}},
	},
	Delete: deleteRecord,
}

// listRecords returns the wanted records or, for a deletion, the cluster's records in every zone
// that can contain its names.
func listRecords(ctx context.Context, c *Client, s resource.Scope) ([]*DNSRecord, error) {
	if s.All {
		return clusterRecords(ctx, c, s.Cluster)
	}
	return wantedRecords(ctx, c, s.Names)
}

func observedRecord(zone string, got dnstypes.ResourceRecordSet) *DNSRecord {
	r := &DNSRecord{ZoneID: zone, Name: dnsName(*got.Name), Type: string(got.Type), TTL: int(deref(got.TTL))}
	for _, v := range got.ResourceRecords {
		r.Records = append(r.Records, resource.Lit(deref(v.Value)))
	}
	if a := got.AliasTarget; a != nil {
		r.Alias = &DNSAlias{Name: resource.Lit(dnsName(deref(a.DNSName))), ZoneID: resource.Lit(deref(a.HostedZoneId)),
			EvaluateTargetHealth: a.EvaluateTargetHealth}
	}
	return r
}

// dnsName returns a name as kops writes it: lower case, without a trailing dot, and with a star
// instead of Route 53's escape code.
func dnsName(name string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.ToLower(name), "."), `\052`, "*")
}

func upsertRecord(ctx context.Context, c *Client, r *DNSRecord) error {
	return changeRecord(ctx, c, dnstypes.ChangeActionUpsert, r)
}

// deleteRecord deletes the record with its current content: Route 53 requires the exact content.
func deleteRecord(ctx context.Context, c *Client, r *DNSRecord) error {
	err := changeRecord(ctx, c, dnstypes.ChangeActionDelete, r)
	if !hasCode(err, "InvalidChangeBatch", "InvalidInput") {
		return fault.IgnoreGone(err)
	}
	now, lerr := wantedRecords(ctx, c, []string{recordKey{r.ZoneID, r.Name, r.Type}.String()})
	if lerr != nil || len(now) == 0 {
		return lerr
	}
	return fault.IgnoreGone(changeRecord(ctx, c, dnstypes.ChangeActionDelete, now[0]))
}

func changeRecord(ctx context.Context, c *Client, action dnstypes.ChangeAction, r *DNSRecord) error {
	set := &dnstypes.ResourceRecordSet{Name: &r.Name, Type: dnstypes.RRType(r.Type)}
	if a := r.Alias; a != nil {
		set.AliasTarget = &dnstypes.AliasTarget{DNSName: new(dnsName(a.Name.Text())), HostedZoneId: new(a.ZoneID.Text()),
			EvaluateTargetHealth: a.EvaluateTargetHealth}
	} else {
		set.TTL = new(int64(r.TTL))
	}
	for _, v := range resource.Texts(r.Records) {
		set.ResourceRecords = append(set.ResourceRecords, dnstypes.ResourceRecord{Value: &v})
	}
	_, err := c.Route53.ChangeResourceRecordSets(ctx, &route53.ChangeResourceRecordSetsInput{
		HostedZoneId: &r.ZoneID,
		ChangeBatch:  &dnstypes.ChangeBatch{Changes: []dnstypes.Change{{Action: action, ResourceRecordSet: set}}},
	})
	if err != nil {
		return fmt.Errorf("%s the record %s %s: %w", strings.ToLower(string(action)), r.Name, r.Type, err)
	}
	return nil
}
