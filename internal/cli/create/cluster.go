package create

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/update"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/newcluster"
)

// clusterOptions are the flags of `create cluster` that do not become part of the spec.
type clusterOptions struct {
	newcluster.Options
	yes, dryRun            bool
	target, out, sshKey    string
	format                 string
	facts                  string
	add                    []string
	associate, encryptEtcd bool
	platformFlags          map[string]func() string // values of the platforms' own flags
	allowUnverified        bool
}

func cluster(app *shell.App) *cobra.Command {
	var o clusterOptions
	c := shell.Cobra("cluster [CLUSTER]", "Create a new cluster", `
Write the Cluster and InstanceGroups of a new cluster to the state store, and show a
preview of its cloud resources. With --yes, create the resources. With --dry-run,
write nothing and print the objects.`, `
  # One control plane and one node
  kops create cluster --zones us-east-1a cluster.example.com

  # Three control planes in private subnets, with a bastion
  kops create cluster --zones us-east-1a,us-east-1b,us-east-1c --control-plane-count 3 \
    --topology private --bastion --networking calico cluster.example.com --yes

  # Settings that the CIS benchmark asks for
  kops create cluster --zones us-east-1a --hardened cluster.example.com

  # One control plane and two nodes on this machine
  kops create cluster --cloud local demo.k8s.local --yes

  # Look at the objects only
  kops create cluster --zones us-east-1a --dry-run -o yaml cluster.example.com`,
		nil)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("associate-public-ip") {
			o.AssociatePublicIP = &o.associate
		}
		if cmd.Flags().Changed("encrypt-etcd-storage") {
			o.EncryptEtcdStorage = &o.encryptEtcd
		}
		name, err := app.RequiredName(args)
		if err != nil {
			return err
		}
		o.ClusterName = name
		for _, flag := range []string{"control-plane-count", "node-count"} {
			if f := cmd.Flags().Lookup(flag); f.Changed && f.Value.String() == "0" {
				app.Notef("warning: --%s=0 means the default number\n", flag)
			}
		}
		o.Own = map[string]string{}
		for name, value := range o.platformFlags {
			o.Own[name] = value()
		}
		if app.Traits(o.CloudProvider).OwnStore {
			app.PreferOwnStore()
		}
		if app.Traits(o.CloudProvider).OwnNetworking {
			if !cmd.Flags().Changed("networking") {
				o.Networking = "" // the cloud has another default
			}
		}
		return create(cmd.Context(), app, o)
	}
	f := c.Flags()
	f.BoolVarP(&o.yes, "yes", "y", false, "also create the cluster's cloud resources")
	f.BoolVar(&o.dryRun, "dry-run", false, "write nothing and print the objects; requires --output")
	f.StringVarP(&o.format, "output", "o", "", "format of --dry-run: yaml or json")
	shell.Choose(c, &o.target, "target", "direct", "target", "`mode`: direct, dryrun or terraform, as for update cluster", "direct", "dryrun", "terraform")
	f.StringVar(&o.out, "out", "", "folder for the files that --target terraform writes")
	f.BoolVar(&o.allowUnverified, "allow-unverified", false, "let machines install files without a known or published SHA-256; the command lists each file")
	f.StringVar(&o.sshKey, "ssh-public-key", "", "file of an SSH public key")
	f.StringVar(&o.facts, "facts", "", "facts file with everything that kops would look up")
	machineFlags(f, &o)
	networkFlags(f, &o)
	cloudFlags(f, &o, app.Platforms(), app.Features())
	oldFlags(c, &o)
	featureFlags(f, &o, app.Features())
	c.Aliases = []string{"clusters"}
	shell.Complete(c, "cloud", shell.Names(app.Platforms())...)
	shell.OfferValues(c, "networking", func() []string { return podNetworks(app.Traits(o.CloudProvider)) })
	shell.Complete(c, "topology", "public", "private")
	shell.Complete(c, "dns", "public", "private", "none")
	return c
}

// allPodNetworks returns the values of --networking on all platforms.
func allPodNetworks() []string {
	return []string{"cilium", "calico", "kindnet", "kubenet", "cni", "flannel", "kube-router", "amazonvpc", "cilium-etcd", "cilium-eni"}
}

// podNetworks returns the values of --networking on a platform; all of them if it is not known yet.
func podNetworks(t *traits.Traits) []string {
	return slices.DeleteFunc(allPodNetworks(), func(name string) bool {
		only := t.Network.Only
		switch {
		case t.Name == "":
			return false
		case only != nil:
			return !slices.Contains(only.Names, strings.ReplaceAll(name, "-", ""))
		case name == "cilium-eni":
			return !t.Has.NetworkAddresses
		case name == "amazonvpc":
			return !t.Network.OwnsPodNetwork(name)
		}
		return false
	})
}

// machineFlags adds the flags for versions and machines.
func machineFlags(f *pflag.FlagSet, o *clusterOptions) {
	f.StringVar(&o.Channel, "channel", "stable", "channel that recommends versions and images")
	f.StringVar(&o.KubernetesVersion, "kubernetes-version", "", "Kubernetes version; for a minor version such as 1.36, the release that the channel recommends (default: the channel's version)")
	f.StringSliceVar(&o.KubernetesFeatureGates, "kubernetes-feature-gates", nil, "feature `gate`s to enable, or to disable with a leading -")
	f.StringSliceVar(&o.Zones, "zones", nil, "`zone`s of the nodes")
	f.StringSliceVar(&o.ControlPlaneZones, "control-plane-zones", nil, "`zone`s of the control plane (default: as many of --zones as --control-plane-count needs)")
	f.Int32Var(&o.ControlPlaneCount, "control-plane-count", 0, "`number` of control plane machines, odd (default: one for each zone in --control-plane-zones, otherwise 1)")
	f.Int32Var(&o.NodeCount, "node-count", 0, "total `number` of nodes (default: one for each zone; 2 on this host)")
	f.StringSliceVar(&o.ControlPlaneSizes, "control-plane-size", nil, "machine `type` of the control plane")
	f.StringSliceVar(&o.NodeSizes, "node-size", nil, "machine `type` of the nodes; several types create a mixed group")
	f.StringVar(&o.Image, "image", "", "image of all machines")
	f.StringVar(&o.ControlPlaneImage, "control-plane-image", "", "image of the control plane")
	f.StringVar(&o.NodeImage, "node-image", "", "image of the nodes")
	f.StringVar(&o.BastionImage, "bastion-image", "", "image of the bastions")
	f.Int32Var(&o.ControlPlaneVolumeSize, "control-plane-volume-size", 0, "root volume of the control plane, in `GB`")
	f.Int32Var(&o.NodeVolumeSize, "node-volume-size", 0, "root volume of the nodes, in `GB`")
	f.StringVar(&o.ControlPlaneVolumeType, "control-plane-volume-type", "", "type of the control plane's root volume")
	f.StringVar(&o.NodeVolumeType, "node-volume-type", "", "type of the nodes' root volume")
	f.StringVar(&o.ControlPlaneTenancy, "control-plane-tenancy", "", "tenancy of the control plane: default, dedicated or host")
	f.StringVar(&o.NodeTenancy, "node-tenancy", "", "tenancy of the nodes: default, dedicated or host")
	f.StringSliceVar(&o.ControlPlaneSecurityGroups, "control-plane-security-groups", nil, "additional security `group`s of the control plane")
	f.StringSliceVar(&o.NodeSecurityGroups, "node-security-groups", nil, "additional security `group`s of the nodes")
	f.BoolVar(&o.associate, "associate-public-ip", false, "give machines public addresses (default: depends on the type of subnet)")
	f.StringVar(&o.InstanceManager, "instance-manager", "cloudgroups", "what creates the nodes: cloudgroups or karpenter")
	f.StringSliceVar(&o.EtcdClusters, "etcd-clusters", []string{"main", "events"}, "etcd `cluster`s to run")
	f.StringVar(&o.EtcdStorageType, "etcd-storage-type", "", "type of the etcd volumes")
	f.BoolVar(&o.encryptEtcd, "encrypt-etcd-storage", false, "encrypt the etcd volumes (default: true if the cloud supports it)")
	f.BoolVar(&o.Hardened, "hardened", false, "follow the CIS benchmark: an audit log, secrets encrypted in etcd, limits of pods, no profiling; see docs/hardening.md")
	f.StringVar(&o.Authorization, "authorization", "RBAC", "authorization: RBAC or AlwaysAllow")
	f.StringSliceVar(&o.Sets, "set", nil, "set a field: `spec.path=value`; repeatable")
	f.StringSliceVar(&o.Unsets, "unset", nil, "clear a field: `spec.path`; repeatable")
}

// networkFlags adds the flags for the network and how the API is reached.
func networkFlags(f *pflag.FlagSet, o *clusterOptions) {
	f.StringVar(&o.Networking, "networking", "cilium", "pod network: "+strings.Join(allPodNetworks(), ", ")+"; the default on this host is kubenet")
	f.StringSliceVar(&o.NetworkCIDRs, "network-cidr", nil, "`CIDR` of the network; each additional CIDR gets its own subnets")
	f.StringVar(&o.NetworkID, "network-id", "", "existing network to use")
	f.StringSliceVar(&o.SubnetIDs, "subnets", nil, "existing `subnet`s to use")
	f.StringSliceVar(&o.UtilitySubnetIDs, "utility-subnets", nil, "existing utility `subnet`s to use")
	f.BoolVar(&o.DisableSubnetTags, "disable-subnet-tags", false, "do not tag existing subnets")
	f.BoolVar(&o.IPv6, "ipv6", false, "use IPv6 for pods and services")
	f.StringVarP(&o.Topology, "topology", "t", "", "public or private (default public; private with --ipv6)")
	f.BoolVar(&o.Bastion, "bastion", false, "create a bastion; for private topology")
	f.StringVar(&o.DNSType, "dns", "", "where DNS names are published: public, private or none (default none; public with --dns-zone)")
	f.StringVar(&o.DNSZone, "dns-zone", "", "DNS zone of the cluster's names")
	f.StringVar(&o.APILoadBalancerType, "api-loadbalancer-type", "", "load balancer of the API: public or internal")
	f.StringVar(&o.APISSLCertificate, "api-ssl-certificate", "", "certificate of the API's load balancer")
	f.StringVar(&o.APIPublicName, "api-public-name", "", "DNS name of the API")
	f.StringSliceVar(&o.AdminAccess, "admin-access", []string{"0.0.0.0/0", "::/0"}, "`CIDR`s that may access the API, and SSH unless --ssh-access is set")
	f.StringSliceVar(&o.SSHAccess, "ssh-access", nil, "`CIDR`s that may access SSH")
	f.StringVar(&o.DiscoveryStore, "discovery-store", "", "public bucket for the service account issuer's keys")
}

// cloudFlags adds the flags for clouds, and for single ones.
func cloudFlags(f *pflag.FlagSet, o *clusterOptions, all []platform.Provider, on complete.Features) {
	f.StringVar(&o.CloudProvider, "cloud", "", "cloud: "+diag.Or(shell.Names(all))+" (default: the cloud of the state store)")
	f.StringVar(&o.CloudLabels, "cloud-labels", "", "tags of all resources: k=v,k=v")
	o.platformFlags = map[string]func() string{}
	for _, p := range all {
		for _, own := range p.New.Options {
			if own.Feature != "" && !on[own.Feature] {
				continue
			}
			if own.Switch {
				v := f.Bool(own.Name, false, own.Usage)
				o.platformFlags[own.Name] = func() string { return map[bool]string{true: "true"}[*v] }
			} else {
				v := f.String(own.Name, own.Default, own.Usage)
				o.platformFlags[own.Name] = func() string { return *v }
			}
			// Flags of kOps' clouds that are not supported here are accepted, but not offered.
			f.Lookup(own.Name).Hidden = p.Connect == nil && own.Feature == ""
		}
	}
}

// oldFlags adds former names of flags.
func oldFlags(c *cobra.Command, o *clusterOptions) {
	f := c.Flags()
	f.StringSliceVar(&o.ControlPlaneZones, "master-zones", nil, "")
	f.Int32Var(&o.ControlPlaneCount, "master-count", 0, "")
	f.StringSliceVar(&o.ControlPlaneSizes, "master-size", nil, "")
	f.StringVar(&o.ControlPlaneImage, "master-image", "", "")
	f.Int32Var(&o.ControlPlaneVolumeSize, "master-volume-size", 0, "")
	f.StringVar(&o.ControlPlaneTenancy, "master-tenancy", "", "")
	f.StringSliceVar(&o.ControlPlaneSecurityGroups, "master-security-groups", nil, "")
	f.StringVar(&o.APIPublicName, "master-public-name", "", "")
	f.StringVar(&o.NetworkID, "vpc", "", "")
	f.StringSliceVar(&o.Sets, "override", nil, "")
	f.String("container-runtime", "", "")
	for old, now := range map[string]string{
		"master-zones": "control-plane-zones", "master-count": "control-plane-count", "master-size": "control-plane-size",
		"master-image": "control-plane-image", "master-volume-size": "control-plane-volume-size",
		"master-tenancy": "control-plane-tenancy", "master-security-groups": "control-plane-security-groups",
		"master-public-name": "api-public-name", "vpc": "network-id", "override": "set",
	} {
		shell.Deprecate(c, old, "use --"+now)
	}
	shell.Deprecate(c, "container-runtime", "containerd is the only supported runtime")
}

// featureFlags adds the flags that exist if a feature flag in KOPS_FEATURE_FLAGS is on.
func featureFlags(f *pflag.FlagSet, o *clusterOptions, on complete.Features) {
	for name, add := range map[string]func(){
		"EnableSeparateConfigBase": func() {
			f.StringVar(&o.ConfigBase, "config-base", "", "folder for the cluster's files (default: in the state store)")
		},
		"DiscoveryService": func() {
			f.StringVar(&o.DiscoveryService, "discovery-service", "", "service that publishes the service account issuer's keys; not supported yet: use --discovery-store")
		},
		"ClusterAddons": func() {
			f.StringSliceVar(&o.add, "add", nil, "`file`s with additional objects of the cluster")
		},
		"APIServerNodes": func() {
			f.Int32Var(&o.APIServerCount, "api-server-count", 0, "`number` of machines that run only API servers")
			f.StringSliceVar(&o.APIServerSizes, "api-server-size", nil, "machine `type` of those machines")
		},
		"ExperimentalRoles": func() {
			f.Int32Var(&o.EtcdCount, "etcd-count", 0, "`number` of machines that run only etcd")
			f.StringSliceVar(&o.EtcdSizes, "etcd-size", nil, "machine `type` of those machines")
			f.Int32Var(&o.KubeControllerManagerCount, "kcm-count", 0, "`number` of machines that run only controller managers")
			f.StringSliceVar(&o.KubeControllerManagerSizes, "kcm-size", nil, "machine `type` of those machines")
			f.Int32Var(&o.SchedulerCount, "scheduler-count", 0, "`number` of machines that run only schedulers")
			f.StringSliceVar(&o.SchedulerSizes, "scheduler-size", nil, "machine `type` of those machines")
		},
	} {
		if on[name] {
			add()
		}
	}
}

func create(ctx context.Context, app *shell.App, o clusterOptions) error {
	if err := checkDryRun(o.dryRun, o.format); err != nil {
		return err
	}
	app.Offline = o.facts != "" && update.OnlyWrites(o.yes, o.target)
	client, err := app.Client(ctx)
	if err != nil {
		return err
	}
	req := kops.NewClusterRequest{Options: o.Options, Target: o.target}
	if o.facts != "" {
		if req.Facts, err = app.ReadFacts(ctx, o.facts); err != nil {
			return err
		}
	}
	req.On = app.On(nil)
	made, err := client.NewCluster(ctx, req)
	if err != nil {
		return err
	}
	app.Warn(made.Warnings)
	if made.Additional, err = additional(ctx, app, o.add); err != nil {
		return err
	}
	if o.dryRun {
		warnings, err := client.Clusters().Check(ctx, made)
		if err != nil {
			return err
		}
		app.Warn(warnings)
		return app.PrintObjects(o.format, made.Objects()...)
	}
	known, err := client.Check(ctx, made, req.Facts)
	if err != nil {
		return err
	}
	key, err := sshKey(ctx, app, o)
	if err != nil {
		return err
	}
	if _, err := client.Clusters().Create(ctx, append(made.Objects(), key...)); err != nil {
		return err
	}
	r := update.Request{Yes: o.yes, Target: o.target, Out: o.out, Facts: known, AllowUnverified: o.allowUnverified}
	if app.Traits(o.CloudProvider).OwnersAdmin {
		r.Admin = pki.AdminValidity // the cluster's creator may access all of it
	}
	if err := update.Run(ctx, app, o.ClusterName, r); err != nil {
		more := ""
		if o.yes {
			more = " --yes"
		}
		if o.yes && r.Admin > 0 {
			more += " --admin"
		}
		app.Notef("The objects of %s are in the state store; to continue, run: kops update cluster --name %s%s\n", o.ClusterName, o.ClusterName, more)
		return err
	}
	if !o.yes && o.target == "direct" {
		suggest(app, o.ClusterName, made.Groups)
	}
	return nil
}

// additional reads the additional objects of the cluster.
func additional(ctx context.Context, app *shell.App, files []string) ([]api.Object, error) {
	if len(files) == 0 {
		return nil, nil
	}
	objs, err := app.Decode(ctx, files)
	for _, o := range objs {
		if o.GetObjectKind().GroupVersionKind().Group == api.Group {
			return nil, fmt.Errorf("--add is for objects to create in the cluster; %s describes the cluster itself", api.Name(o))
		}
	}
	return objs, err
}

// sshKey returns the named key, or else the user's own, unless the platform only takes named keys;
// or none.
func sshKey(ctx context.Context, app *shell.App, o clusterOptions) ([]api.Object, error) {
	object := func(key []byte) []api.Object {
		k := &api.SSHCredential{Spec: api.SSHCredentialSpec{PublicKey: string(key)}}
		k.Name, k.Labels = "admin", map[string]string{api.LabelCluster: o.ClusterName}
		return []api.Object{k}
	}
	if o.sshKey != "" {
		data, err := app.ReadFile(ctx, o.sshKey)
		if err != nil {
			return nil, err
		}
		return object(data), nil
	}
	if app.Traits(o.CloudProvider).SSHKeys.NamedOnly || app.Home == "" {
		return nil, nil
	}
	for _, name := range []string{"id_ed25519.pub", "id_rsa.pub"} {
		if data, err := os.ReadFile(filepath.Join(app.Home, ".ssh", name)); err == nil {
			app.Notef("Using the SSH public key %s\n", filepath.Join(app.Home, ".ssh", name))
			return object(data), nil
		}
	}
	return nil, nil
}

// suggest prints how to continue after a preview.
func suggest(app *shell.App, name string, groups []*api.InstanceGroup) {
	var edits strings.Builder
	for _, role := range []api.InstanceGroupRole{api.RoleNode, api.RoleControlPlane} {
		for _, g := range groups {
			if g.Spec.Role == role {
				fmt.Fprintf(&edits, " * edit the group %s: kops edit ig --name=%s %s\n", g.Name, name, g.Name)
				break
			}
		}
	}
	app.Notef(`
Cluster configuration has been created.

Suggestions:
 * list clusters: kops get cluster
 * edit this cluster: kops edit cluster %s
%s
Finally create the cluster: kops update cluster --name %s --yes --admin
`, name, &edits, name)
}
