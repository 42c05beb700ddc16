package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/platform/aws/lookup"
)

// cpuQuota is an account's quota on the vCPUs of running instances in a region. Source: "Amazon EC2
// On-Demand Instance quotas" and "Spot Instance quotas" in the EC2 User Guide.
type cpuQuota struct {
	name string
	// families are the prefixes of instance types, up to the first digit.
	families []string
	// onDemand and spot are the quota codes in Service Quotas.
	onDemand, spot string
}

// cpuQuotas lists the quotas on vCPUs. Families that are not listed are not checked.
func cpuQuotas() []cpuQuota {
	return []cpuQuota{
		{"Standard (A, C, D, H, I, M, R, T, Z)", []string{"a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"}, "L-1216C47A", "L-34B43A08"},
		{"G and VT", []string{"g", "gr", "vt"}, "L-DB2E81BA", "L-3819A6DF"},
		{"P", []string{"p"}, "L-417A185B", "L-7212CCBC"},
		{"X", []string{"x"}, "L-7295265B", "L-E3A00192"},
		{"F", []string{"f"}, "L-74FC7D96", "L-88CF9481"},
		{"Inf", []string{"inf"}, "L-1945791B", "L-B5D1601B"},
		{"Trn", []string{"trn"}, "L-2C3B7624", "L-6B0D517C"},
		{"DL", []string{"dl"}, "L-6E869C2A", "L-85EED4F7"},
	}
}

// quotaOf returns the code of the quota that limits instances of a type, and its name for messages.
func quotaOf(instanceType string, spot bool) (code, name string) {
	family := instanceType
	if i := strings.IndexAny(instanceType, "0123456789"); i >= 0 {
		family = instanceType[:i]
	}
	for _, q := range cpuQuotas() {
		switch {
		case !slices.Contains(q.families, family):
		case spot:
			return q.spot, "All " + q.name + " Spot Instance Requests"
		default:
			return q.onDemand, "Running On-Demand " + q.name + " instances"
		}
	}
	return "", ""
}

// quotaGroup is a group whose machines are limited by a quota.
type quotaGroup struct {
	group      *api.InstanceGroup
	code, name string // of the quota
}

// quotaGroups returns the groups that are limited by a known quota: those
// whose machines are all of one type.
func quotaGroups(groups []*api.InstanceGroup) (out []quotaGroup) {
	for _, g := range groups {
		oneType := g.Spec.MixedInstancesPolicy == nil && !strings.Contains(g.Spec.MachineType, ",")
		spot := g.Spec.MaxPrice != nil && *g.Spec.MaxPrice != ""
		if code, name := quotaOf(g.Spec.MachineType, spot); code != "" && oneType {
			out = append(out, quotaGroup{g, code, name})
		}
	}
	return out
}

// cpuRoom returns how many more machines of each group the account's vCPU quotas allow. A group
// whose machines may be of several types, or whose quota cannot be read, is left out: missing
// permission for servicequotas:GetServiceQuota does not stop a roll.
func cpuRoom(ctx context.Context, client *kinds.Client, groups []*api.InstanceGroup) ([]platform.Room, error) {
	all := quotaGroups(groups)
	limits := cpuLimits(ctx, client, all)
	if len(limits) == 0 {
		return nil, nil
	}
	running, err := countRunning(ctx, client)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for r := range running {
		names[r.machine] = true
	}
	for _, b := range all {
		names[b.group.Spec.MachineType] = true
	}
	types, err := lookup.Types(ctx, client.EC2, slices.Sorted(maps.Keys(names)))
	if err != nil {
		return nil, err
	}
	used := map[string]int{} // by the quota's code
	for r, count := range running {
		code, _ := quotaOf(r.machine, r.spot)
		used[code] += count * types[r.machine].VCPU
	}
	var out []platform.Room
	for _, b := range all {
		machine := b.group.Spec.MachineType
		limit, known := limits[b.code]
		each := types[machine].VCPU
		if !known || each == 0 {
			continue
		}
		left := max(limit-used[b.code], 0)
		out = append(out, platform.Room{Group: b.group.Name, Machines: left / each,
			Why:    fmt.Sprintf("the quota %q leaves %d vCPUs, but a %s has %d", b.name, left, machine, each),
			Remedy: "request a higher value of the quota " + b.code + " in Service Quotas, or choose another machine type"})
	}
	return out, nil
}

// cpuLimits returns the quotas of groups in vCPUs, by quota code. Quotas
// that cannot be read are left out.
func cpuLimits(ctx context.Context, client *kinds.Client, all []quotaGroup) map[string]int {
	asked, limits := map[string]bool{}, map[string]int{}
	for _, b := range all {
		if asked[b.code] {
			continue
		}
		asked[b.code] = true
		var answer struct{ Quota struct{ Value float64 } }
		if err := client.Quotas.Call(ctx, "GetServiceQuota", awsapi.Fields{"ServiceCode": "ec2", "QuotaCode": b.code}, &answer); err == nil {
			limits[b.code] = int(answer.Quota.Value)
		}
	}
	return limits
}

// quotaClass is a group of instances that count towards the same quota by the same number of vCPUs.
type quotaClass struct {
	machine string // its type
	spot    bool
}

// countRunning counts the running instances of the account in the region.
func countRunning(ctx context.Context, client *kinds.Client) (map[quotaClass]int, error) {
	count := map[quotaClass]int{}
	pages := ec2.NewDescribeInstancesPaginator(client.EC2, &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: sdk.String("instance-state-name"), Values: []string{"pending", "running"}}}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe the running instances of the account: %w", err)
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				count[quotaClass{string(i.InstanceType), i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot}]++
			}
		}
	}
	return count, nil
}
