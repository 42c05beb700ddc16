package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/platform/aws/awscloud"
	"kops.local/kops/internal/platform/aws/awsname"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/validate"
)

// modelTraits returns how the files of AWS machines differ.
func modelTraits() traits.Model {
	return traits.Model{
		Volumes: func(c *api.Cluster, etcd, _ string) traits.Volumes {
			return traits.Volumes{Provider: "aws", NameTag: "k8s.io/etcd/" + etcd,
				Tags: []string{"kubernetes.io/cluster/" + c.Name + "=owned", "k8s.io/etcd/" + etcd, "k8s.io/role/control-plane=1"}}
		},
		Peers:              traits.NamedPeers,
		CredentialProvider: "https://artifacts.k8s.io/binaries/cloud-provider-aws/v1.31.7/linux/%s/ecr-credential-provider-linux-%[1]s",
		NodeConfig:         nodeConfig,
		NodeImages:         []string{"registry.k8s.io/provider-aws/", "registry.k8s.io/sig-storage/csi-node-driver-registrar:", "registry.k8s.io/sig-storage/livenessprobe:"},
		RemovesNodes:       true,
		ScalingGroups: func(c *api.Cluster, g *api.InstanceGroup) []traits.ScalingGroup {
			return traits.WholeGroup(awscloud.ScalingGroup(g.Name, string(g.Spec.Role), c.Name), g)
		},
		Controller:  controller,
		Values:      values,
		GroupValues: groupValues,
		AddonFlags:  addonFlags,
		MountRole:   mountRole,
	}
}

func nodeConfig(c *api.Cluster, g *api.InstanceGroup, to *nodeconfig.Config) {
	p := c.Spec.CloudProvider.AWS
	to.UseIPBasedNodeNames = p.UseIPBasedNodeNames
	if g.HasAPIServer() {
		to.DisableSecurityGroupIngress, to.ELBSecurityGroup = p.DisableSecurityGroupIngress, p.ELBSecurityGroup
		to.NLBSecurityGroupMode, to.NodeIPFamilies = p.NLBSecurityGroupMode, p.NodeIPFamilies
	}
	n := c.Spec.Networking
	if n.AmazonVPC != nil || n.Cilium != nil && n.Cilium.IPAM == "eni" {
		to.DefaultMachineType, _, _ = strings.Cut(g.Spec.MachineType, ",")
	}
}

// controller returns the configuration of kops-controller: the roles of machines that may request
// certificates, and the roles by the instance profile that contains them.
func controller(c *api.Cluster, groups []*api.InstanceGroup, f *facts.Cloud, region string) (any, error) {
	own, err := facts.OwnAs[Facts](f)
	if err != nil {
		return nil, err
	}
	profiles := map[string]string{}
	for _, g := range groups {
		machines := "nodes"
		switch {
		case g.IsControlPlane(), g.IsBastion():
			continue
		case g.Spec.Role == api.RoleAPIServer:
			machines = "apiservers"
		}
		role := awsname.MachineRole(machines, c.Name)
		profile := role
		if p := g.Spec.IAM; p != nil && p.Profile != nil {
			profile = path.Base(*p.Profile)
			if shared, ok := own.InstanceProfileRole(*p.Profile); ok {
				role = shared
			}
		}
		profiles[profile] = role
	}
	roles := slices.Compact(slices.Sorted(maps.Values(profiles)))
	return awscloud.Controller{NodesRoles: roles, NodesProfiles: profiles, Region: region}, nil
}

// values returns the URL of the queue that announces machines about to be terminated, and the roles
// of the user's service accounts.
func values(c *api.Cluster, f *facts.Cloud, region string) (map[string]string, error) {
	own, err := facts.OwnAs[Facts](f)
	if err != nil {
		return nil, err
	}
	suffix := "amazonaws.com"
	if own.Partition == "aws-cn" {
		suffix += ".cn"
	}
	roles, err := accountRoles(c, own)
	return map[string]string{
		"terminationQueue": "https://sqs." + region + "." + suffix + "/" + own.AccountID + "/" + awsname.TerminationQueue(c.Name),
		"accountRoles":     roles,
	}, err
}

// addonFlags returns the flags that only this cloud's clusters pass to an add-on.
func addonFlags(c *api.Cluster, addon string) []string {
	if a := c.Spec.ClusterAutoscaler; addon == "cluster-autoscaler" && a != nil {
		return []string{"--aws-use-static-instance-list=" + strconv.FormatBool(validate.IsTrue(a.AWSUseStaticInstanceList))}
	}
	return nil
}

// accountRole is the pod identity webhook's configuration for one service account.
type accountRole struct {
	RoleARN         string `json:"RoleARN"`
	Audience        string `json:"Audience"`
	UseRegionalSTS  bool   `json:"UseRegionalSTS"`
	TokenExpiration int    `json:"TokenExpiration"`
}

// accountRoles returns the roles of the user's service accounts, by namespace/name, as JSON. A
// namespace may be a pattern. The webhook knows how long a token is valid.
func accountRoles(c *api.Cluster, own Facts) (string, error) {
	out := map[string]accountRole{}
	if iam := c.Spec.IAM; iam != nil && own.AccountID != "" {
		for _, p := range iam.ServiceAccountExternalPermissions {
			if p.AWS == nil {
				continue
			}
			out[p.Namespace+"/"+p.Name] = accountRole{RoleARN: roleARN(c, own, p.Name, p.Namespace), Audience: "amazonaws.com", UseRegionalSTS: true}
		}
	}
	text, err := json.Marshal(out)
	return string(text), err
}

// roleARN returns the ARN of a service account's role.
func roleARN(c *api.Cluster, own Facts, account, namespace string) string {
	return fmt.Sprintf("arn:%s:iam::%s:role/%s", own.Partition, own.AccountID, awsname.AccountRole(account, namespace, c.Name))
}

// mountRole mounts a token in a pod that lets it assume the role of its service account.
func mountRole(c *api.Cluster, f *facts.Cloud, account string, pod map[string]any) error {
	own, err := facts.OwnAs[Facts](f)
	if err != nil || own.AccountID == "" {
		return err
	}
	const volume, mount = "token-amazonaws-com", "/var/run/secrets/amazonaws.com/"
	list := func(v any) []any { l, _ := v.([]any); return l }
	for _, o := range list(pod["containers"]) {
		container, ok := o.(map[string]any)
		if !ok {
			continue
		}
		container["env"] = append(list(container["env"]), map[string]any{"name": "AWS_ROLE_ARN", "value": roleARN(c, own, account, "kube-system")},
			map[string]any{"name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": mount + "token"})
		container["volumeMounts"] = append(list(container["volumeMounts"]), map[string]any{"name": volume, "mountPath": mount, "readOnly": true})
	}
	pod["volumes"] = append(list(pod["volumes"]), map[string]any{"name": volume, "projected": map[string]any{
		"defaultMode": 0o644,
		"sources": []any{map[string]any{"serviceAccountToken": map[string]any{
			"audience": "amazonaws.com", "expirationSeconds": 86400, "path": "token"}}},
	}})
	security, ok := pod["securityContext"].(map[string]any)
	if !ok {
		security = map[string]any{}
		pod["securityContext"] = security
	}
	if security["fsGroup"] == nil {
		security["fsGroup"] = 10001
	}
	return nil
}
