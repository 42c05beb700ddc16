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
)

// cpuQuota is a quota of an account in a region on the vCPUs of running instances.
// Source: "Amazon EC2 On-Demand Instance quotas" and "Spot Instance quotas" of the EC2 User Guide.
type cpuQuota struct {
	name string
	// families are the beginnings of instance types, up to the first digit.
	families []string
	// onDemand and spot are the codes in Service Quotas.
	onDemand, spot string
}

// cpuQuotas lists the quotas on vCPUs. A family that none of them names has no check.
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

// quotaOf returns the quota that bounds instances of a type: its code, and its name for messages.
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

// cpuRoom returns for how many more machines of each group the account's quotas on vCPUs leave
// room. A group whose machines may be of several types, or whose quota cannot be read, is left
// out: missing permission for servicequotas:GetServiceQuota does not stop a roll.
func cpuRoom(ctx context.Context, client *kinds.Client, groups []*api.InstanceGroup) ([]platform.Room, error) {
	limits := map[string]int{} // by the quota's code; -1 where it cannot be read
	readable := false
	vCPUs := map[ec2types.InstanceType]int{}
	for _, g := range groups {
		code, _ := quotaOf(g.Spec.MachineType, isSpot(g))
		if code == "" || !isOfOneType(g) {
			continue
		}
		if _, asked := limits[code]; !asked {
			limits[code] = cpuLimit(ctx, client, code)
			readable = readable || limits[code] >= 0
		}
		vCPUs[ec2types.InstanceType(g.Spec.MachineType)] = 0
	}
	if !readable {
		return nil, nil
	}
	running, err := runningOfAccount(ctx, client)
	if err != nil {
		return nil, err
	}
	for r := range running {
		vCPUs[r.machine] = 0
	}
	if err := fillCPUs(ctx, client, vCPUs); err != nil {
		return nil, err
	}
	used := map[string]int{} // by the quota's code
	for r, count := range running {
		code, _ := quotaOf(string(r.machine), r.spot)
		used[code] += count * vCPUs[r.machine]
	}
	var out []platform.Room
	for _, g := range groups {
		code, name := quotaOf(g.Spec.MachineType, isSpot(g))
		limit, asked := limits[code]
		each := vCPUs[ec2types.InstanceType(g.Spec.MachineType)]
		if !asked || limit < 0 || each == 0 || !isOfOneType(g) {
			continue
		}
		left := max(limit-used[code], 0)
		out = append(out, platform.Room{Group: g.Name, Machines: left / each,
			Why:    fmt.Sprintf("the quota %q leaves %d vCPUs, and a %s has %d", name, left, g.Spec.MachineType, each),
			Remedy: "request a higher value of the quota " + code + " in Service Quotas, or choose another machine type"})
	}
	return out, nil
}

func isSpot(g *api.InstanceGroup) bool { return g.Spec.MaxPrice != nil && *g.Spec.MaxPrice != "" }

func isOfOneType(g *api.InstanceGroup) bool {
	return g.Spec.MixedInstancesPolicy == nil && !strings.Contains(g.Spec.MachineType, ",")
}

// cpuLimit returns the value of a quota of EC2 in vCPUs, or -1 when it cannot be read.
func cpuLimit(ctx context.Context, client *kinds.Client, code string) int {
	var answer struct{ Quota struct{ Value float64 } }
	if err := client.Quotas.Call(ctx, "GetServiceQuota", awsapi.Fields{"ServiceCode": "ec2", "QuotaCode": code}, &answer); err != nil {
		return -1
	}
	return int(answer.Quota.Value)
}

// alike are instances that a quota counts alike.
type alike struct {
	machine ec2types.InstanceType
	spot    bool
}

// runningOfAccount counts the running instances of the account in the region.
func runningOfAccount(ctx context.Context, client *kinds.Client) (map[alike]int, error) {
	count := map[alike]int{}
	pages := ec2.NewDescribeInstancesPaginator(client.EC2, &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: sdk.String("instance-state-name"), Values: []string{"pending", "running"}}}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe the running instances of the account: %w", err)
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				count[alike{i.InstanceType, i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot}]++
			}
		}
	}
	return count, nil
}

// fillCPUs sets how many vCPUs an instance of each type has; types that the region lacks stay at 0.
func fillCPUs(ctx context.Context, client *kinds.Client, vCPUs map[ec2types.InstanceType]int) error {
	const most = 100 // values of a filter; EC2 takes 200
	for names := range slices.Chunk(slices.Sorted(maps.Keys(vCPUs)), most) {
		filter := ec2types.Filter{Name: sdk.String("instance-type")}
		for _, n := range names {
			filter.Values = append(filter.Values, string(n))
		}
		found, err := client.EC2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{Filters: []ec2types.Filter{filter}})
		if err != nil {
			return fmt.Errorf("describe machine types: %w", err)
		}
		for _, t := range found.InstanceTypes {
			vCPUs[t.InstanceType] = int(sdk.ToInt32(t.VCpuInfo.DefaultVCpus))
		}
	}
	return nil
}
