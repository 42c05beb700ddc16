package shell

import (
	"regexp"

	"kops.local/kops/api/status"
	"kops.local/kops/internal/engine/fault"
)

// Flags returns the flags that correspond to the options of the library: option:Prune in the
// library's texts is --prune here.
func Flags() map[string]string {
	return map[string]string{
		"APILoadBalancerType": "api-loadbalancer-type", "APIServerCount": "api-server-count", "APIServerSizes": "api-server-size",
		"Admin": "admin", "AllowDowngrade": "allow-kops-downgrade", "AllowUnverified": "allow-unverified", "Authorization": "authorization",
		"Bastion": "bastion", "BastionImage": "bastion-image", "Cert": "cert", "CloudLabels": "cloud-labels", "CloudProvider": "cloud", "ClusterName": "name",
		"ControlPlaneCount": "control-plane-count", "ControlPlaneImage": "control-plane-image", "ControlPlaneSizes": "control-plane-size",
		"ControlPlaneZones": "control-plane-zones", "DNSType": "dns", "DiscoveryService": "discovery-service", "DiscoveryStore": "discovery-store",
		"DrainTimeout": "drain-timeout", "CloudOnly": "cloudonly",
		"EtcdCount": "etcd-count", "EtcdSizes": "etcd-size", "Facts": "facts", "FailOnDrainError": "fail-on-drain-error", "Force": "force", "Foreign": "foreign", "GroupZones": "zone", "Groups": "instance-group", "IPv6": "ipv6", "Image": "image", "InPlaceOf": "in-place-of", "Interactive": "interactive",
		"InstanceManager": "instance-manager", "Internal": "internal", "KeepKeys": "save-plan", "Key": "key", "KubeControllerManagerCount": "kcm-count", "KubeControllerManagerSizes": "kcm-size",
		"KubernetesVersion": "kubernetes-version", "Lifecycles": "lifecycle-overrides", "NetworkCIDRs": "network-cidr", "NetworkID": "network-id",
		"Networking": "networking", "NodeCount": "node-count", "NodeImage": "node-image", "NodeSizes": "node-size", "Phase": "phase", "Primary": "primary", "Project": "project", "Prune": "prune", "Replace": "replace",
		"Role": "role", "Roles": "instance-group-roles", "SchedulerCount": "scheduler-count", "SchedulerSizes": "scheduler-size", "Server": "api-server", "Sets": "set", "Store": "state",
		"SubnetIDs": "subnets", "Subnets": "subnet", "Target": "target", "Topology": "topology", "User": "user", "UtilitySubnetIDs": "utility-subnets",
		"SkipChecks": "skip-checks", "To": "to", "UseKubeconfig": "use-kubeconfig",
		"Wait": "wait", "Zones": "zones",
	}
}

// SpellFailures replaces options in failures of a cluster with flags.
func SpellFailures(list []status.Failure) {
	for i := range list {
		list[i].Message, list[i].Remedy = Spell(list[i].Message), Spell(list[i].Remedy)
	}
}

// option matches an option of the library in a text.
var option = regexp.MustCompile(`\boption:[A-Z][A-Za-z0-9]*`)

// Spell replaces the library's options in a text with flags.
func Spell(text string) string {
	flags := Flags()
	return option.ReplaceAllStringFunc(text, func(found string) string {
		if flag, ok := flags[found[len("option:"):]]; ok {
			return "--" + flag
		}
		return found
	})
}

// spelledError is an error whose options are replaced with flags.
type spelledError struct{ error }

func (s spelledError) Error() string { return Spell(s.error.Error()) }

// Unwrap returns the library's original error.
func (s spelledError) Unwrap() error { return s.error }

// spellError replaces the options in an error and in its remedy.
func spellError(err error) error {
	if err == nil {
		return nil
	}
	if remedy := fault.Remedy(err); remedy != Spell(remedy) {
		return fault.Wrap(fault.Of(err), spelledError{err}, Spell(remedy))
	}
	return spelledError{err}
}
