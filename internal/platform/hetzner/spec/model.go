package spec

import (
	"maps"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/facts"
)

// tokenVariable passes the token to a container, from the Secret of the add-on hcloud-config.
const tokenVariable = "- name: HCLOUD_TOKEN\n  valueFrom:\n    secretKeyRef:\n      name: hcloud\n      key: token\n"

// autoscalerVariables configure the cluster autoscaler. Its machines get no SSH key: the number of the
// key is not known before it exists.
const autoscalerVariables = tokenVariable + `- name: HCLOUD_NETWORK
  valueFrom:
    secretKeyRef:
      name: hcloud
      key: network
- name: HCLOUD_SSH_KEY
  value: ""
- name: HCLOUD_PUBLIC_IPV4
  value: "true"
- name: HCLOUD_PUBLIC_IPV6
  value: "false"
- name: HCLOUD_CLUSTER_CONFIG_FILE
  value: /etc/cluster-autoscaler/cluster-config.json`

// modelTraits returns what Hetzner changes in the files of its machines.
func modelTraits() traits.Model {
	return traits.Model{
		RemovesNodes: true,
		Volumes: func(c *api.Cluster, etcd, group string) traits.Volumes {
			return traits.Volumes{Provider: "hetzner", NameTag: hetznercloud.GroupLabel + "=" + group,
				Tags: []string{hetznercloud.ClusterLabel + "=" + c.Name, hetznercloud.VolumeLabel + "=" + etcd}}
		},
		ScalingGroups: func(c *api.Cluster, g *api.InstanceGroup) []traits.ScalingGroup {
			location, _ := LocationOf(c, g) // validation has rejected others
			out := traits.WholeGroup(g.Spec.MachineType+":"+location+":"+g.Name, g)
			out[0].ID = g.Name
			return out
		},
		Values: func(*api.Cluster, *facts.Cloud, string) (map[string]string, error) {
			return map[string]string{"controllerEnvironment": strings.TrimSuffix(tokenVariable, "\n"), "autoscalerEnvironment": autoscalerVariables, "autoscalerConfig": "hcloud"}, nil
		},
		GroupValues: func(c *api.Cluster, g *api.InstanceGroup, f *facts.Cloud) (map[string]any, error) {
			image := ImageOf(g, f)
			return map[string]any{
				"serverLabels": ServerLabels(c, g),
				"autoscaler":   map[string]any{"labels": g.Spec.Kubelet.NodeLabels, "taints": taints(g), "imagesForArch": map[string]string{"amd64": image, "arm64": image}},
			}, nil
		},
	}
}

// ImageOf returns the image of a group as servers show it.
func ImageOf(g *api.InstanceGroup, f *facts.Cloud) string {
	if i, ok := f.Image(g.Spec.Image); ok && i.ID != "" {
		return i.ID
	}
	return g.Spec.Image
}

// ServerLabels returns the labels of a group's servers.
func ServerLabels(c *api.Cluster, g *api.InstanceGroup) map[string]string {
	out := map[string]string{}
	maps.Copy(out, c.Spec.CloudLabels)
	maps.Copy(out, g.Spec.CloudLabels)
	if k := g.Spec.Kubelet; k != nil { // completion has added all labels of nodes
		for label, value := range k.NodeLabels {
			out[hetznercloud.NodeLabelPrefix+label] = value
		}
	}
	if !g.IsControlPlane() {
		out[hetznercloud.AutoscalerLabel] = g.Name
	}
	out[hetznercloud.ClusterLabel], out[hetznercloud.GroupLabel], out[hetznercloud.RoleLabel] = c.Name, g.Name, string(g.Spec.Role)
	return out
}

// taints returns the taints of a group's nodes as Kubernetes writes them.
func taints(g *api.InstanceGroup) []map[string]string {
	out := []map[string]string{}
	if k := g.Spec.Kubelet; k != nil {
		for _, t := range k.Taints {
			key, value, effect := labels.SplitTaint(t)
			out = append(out, map[string]string{"key": key, "value": value, "effect": effect})
		}
	}
	return out
}
