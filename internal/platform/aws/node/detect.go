package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awscloud"
	"kops.local/kops/internal/platform/onmachine"
)

// detect reads the facts from the instance's metadata service.
func detect(ctx context.Context, w onmachine.World, boot *nodeconfig.Boot, c *nodeconfig.Config) (onmachine.Facts, error) {
	var f onmachine.Facts
	aws := newAPI(w)
	session, err := aws.Metadata.Session(ctx)
	if err != nil {
		return f, fmt.Errorf("identify this machine: %w", err)
	}
	get := session.Getter(ctx, &err)
	id, hostname, zone := get("instance-id"), get("local-hostname"), get("placement/availability-zone")
	f.Address = get("local-ipv4")
	known := []string{id, hostname, f.Address, get("public-ipv4"), get("ipv6")}
	if len(c.WarmPoolImages) > 0 && c.ControlPlaneConfig == nil {
		f.Warming = strings.HasPrefix(get("autoscaling/target-lifecycle-state"), "Warmed:")
	}
	machineType := ""
	if c.CloudAddresses() {
		machineType = get("instance-type")
	}
	if err != nil {
		return f, fmt.Errorf("identify this machine: %w", err)
	}
	if id == "" || zone == "" {
		return f, errors.New("identify this machine: the metadata service returned no instance or no zone")
	}
	f.NodeName, f.ProviderID = id, "aws:///"+zone+"/"+id
	if c.UseIPBasedNodeNames != nil && *c.UseIPBasedNodeNames {
		f.NodeName = hostname
	}
	slices.Sort(known)
	f.Names = slices.DeleteFunc(slices.Compact(known), func(s string) bool { return s == "" })
	if c.EnableLifecycleHook {
		f.Waiting = awscloud.ScalingGroup(boot.InstanceGroupName, boot.InstanceGroupRole, boot.ClusterName)
	}
	if machineType == "" || c.KubeletConfig != nil && c.KubeletConfig.MaxPods != nil {
		return f, nil
	}
	f.MaxPods, err = aws.PodAddresses(ctx, machineType)
	if fault.Is(err, fault.Denied) { // the spec or the limit of Kubernetes applies instead
		// AWS' own message differs each time, and a warning should be recorded once.
		f.Warnings = append(f.Warnings, "the number of pods is not limited by the number of addresses: the machine's role may not look up a "+machineType+
			"; allow it ec2:DescribeInstanceTypes, or set spec.kubelet.maxPods")
		return f, nil
	}
	return f, err
}
