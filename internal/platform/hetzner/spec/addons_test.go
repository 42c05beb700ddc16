package spec_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/hetzner/spec"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/test/spectest"
)

const clusterFile = `
apiVersion: kops.k8s.io/v1alpha2
kind: Cluster
metadata:
  name: a.example.com
spec:
  api: {loadBalancer: {type: Public}}
  channel: stable
  cloudLabels: {owner: shop}
  cloudProvider: hetzner
  clusterAutoscaler: {enabled: true, createPriorityExpanderConfig: true, expander: priority}
  configBase: memfs://bucket/a.example.com
  etcdClusters:
  - name: main
    etcdMembers: [{name: a, instanceGroup: cp}]
  kubernetesVersion: 1.36.0
  networkCIDR: 10.0.0.0/16
  networking: {cilium: {}}
  nonMasqueradeCIDR: 100.64.0.0/10
  subnets:
  - {name: fsn1, zone: fsn1, type: Public}
  topology: {dns: {type: None}}
---
apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {name: cp, labels: {kops.k8s.io/cluster: a.example.com}}
spec: {role: Master, machineType: cx23, image: ubuntu-24.04, subnets: [fsn1]}
---
apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {name: nodes, labels: {kops.k8s.io/cluster: a.example.com}}
spec: {role: Node, machineType: cx33, image: "161547269", subnets: [fsn1], minSize: 1, maxSize: 4, taints: ["dedicated=x:NoSchedule", "alone:NoExecute"], nodeLabels: {tier: web}, cloudLabels: {team: a}}
`

// objects returns the objects of the add-ons of a cluster, by kind and name.
func objects(t *testing.T) map[string]map[string]any {
	t.Helper()
	p := spec.Platform()
	world := &facts.Facts{Clouds: map[string]*facts.Cloud{"hetzner": {Region: "eu-central", Images: map[string]facts.Image{"161547269": {ID: "ubuntu-24.04"}}}}}
	in := complete.Input{Facts: world, Channel: spectest.Stable(t), Platform: p.ForComplete()}
	in.Cluster, in.Groups = spectest.Read(t, []byte(clusterFile))
	done, wrong := complete.Complete(in)
	if err := wrong.Err(); err != nil {
		t.Fatal(err)
	}
	r, err := addons.Build(addons.Input{Cluster: done.Spec, Groups: done.Groups, Traits: &p.Traits, Version: "1.37.0", Facts: world, Secrets: map[string]pki.Secret{hetznercloud.TokenVariable: pki.NewSecret("a: token")},
		UserData: func(g *api.InstanceGroup) (resource.Value, error) {
			return resource.Lit("#!/bin/sh\n# " + g.Name + "\n"), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for _, f := range r.Files {
		all, err := addons.Decode(f.Content)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			name, _ := o["metadata"].(map[string]any)["name"].(string)
			out[o["kind"].(string)+"/"+name] = o
		}
	}
	return out
}

// as decodes an object strictly.
func as[T any](t *testing.T, all map[string]map[string]any, key string) T {
	t.Helper()
	var out T
	text, err := json.Marshal(all[key])
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil || len(all[key]) == 0 {
		t.Fatalf("%s: %v in %v", key, err, slices.Sorted(maps.Keys(all)))
	}
	return out
}

func variable(pod corev1.PodSpec, name string) corev1.EnvVar {
	for _, c := range pod.Containers {
		for _, v := range c.Env {
			if v.Name == name {
				return v
			}
		}
	}
	return corev1.EnvVar{}
}

// The cluster's programs have the token from a Secret, and nothing else contains it.
func TestProgramsGetTheToken(t *testing.T) {
	all := objects(t)
	s := as[corev1.Secret](t, all, "Secret/hcloud")
	if s.StringData["token"] != "a: token" || s.StringData["network"] != "a.example.com" {
		t.Errorf("%v", s.StringData)
	}
	pods := map[string]corev1.PodSpec{
		"cloud controller": as[appsv1.Deployment](t, all, "Deployment/hcloud-cloud-controller-manager").Spec.Template.Spec,
		"storage driver":   as[appsv1.Deployment](t, all, "Deployment/hcloud-csi-controller").Spec.Template.Spec,
		"autoscaler":       as[appsv1.Deployment](t, all, "Deployment/cluster-autoscaler").Spec.Template.Spec,
		"kops-controller":  as[appsv1.DaemonSet](t, all, "DaemonSet/kops-controller").Spec.Template.Spec,
	}
	for name, pod := range pods {
		if v := variable(pod, "HCLOUD_TOKEN"); v.ValueFrom == nil || v.ValueFrom.SecretKeyRef.Name != "hcloud" || v.ValueFrom.SecretKeyRef.Key != "token" {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := variable(pods["storage driver"], "HCLOUD_VOLUME_EXTRA_LABELS"); v.Value != "kops.k8s.io/cluster=a.example.com" {
		t.Errorf("volumes of claims: %+v", v)
	}
	for key, o := range all {
		if text, _ := json.Marshal(o); key != "Secret/hcloud" && strings.Contains(string(text), "a: token") {
			t.Errorf("%s contains the token", key)
		}
	}
}

// The autoscaler makes the same machines as kops.
func TestTheAutoscalerMakesServers(t *testing.T) {
	all := objects(t)
	var config struct {
		ImagesForArch map[string]string `json:"imagesForArch"`
		NodeConfigs   map[string]struct {
			CloudInit     string              `json:"cloudInit"`
			Labels        map[string]string   `json:"labels"`
			ServerLabels  map[string]string   `json:"serverLabels"`
			Taints        []map[string]string `json:"taints"`
			ImagesForArch map[string]string   `json:"imagesForArch"`
		} `json:"nodeConfigs"`
	}
	text := as[corev1.ConfigMap](t, all, "ConfigMap/cluster-autoscaler-hcloud-config").Data["cluster-config.json"]
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&config); err != nil {
		t.Fatal(err)
	}
	n := config.NodeConfigs["nodes"]
	if len(config.NodeConfigs) != 1 || n.CloudInit != "#!/bin/sh\n# nodes\n" || n.Labels["tier"] != "web" || config.ImagesForArch["arm64"] != "ubuntu-24.04" || n.ImagesForArch["amd64"] != "ubuntu-24.04" {
		t.Errorf("%+v", config)
	}
	if len(n.Taints) != 2 || !maps.Equal(n.Taints[1], map[string]string{"key": "dedicated", "value": "x", "effect": "NoSchedule"}) || !maps.Equal(n.Taints[0], map[string]string{"key": "alone", "value": "", "effect": "NoExecute"}) {
		t.Errorf("%v", n.Taints)
	}
	sum := sha256.Sum256([]byte(n.CloudInit))
	for key, want := range map[string]string{"kops.k8s.io/cluster": "a.example.com", "kops.k8s.io/instance-group": "nodes", "kops.k8s.io/instance-role": "Node", "team": "a", "owner": "shop",
		"hcloud/node-group": "nodes", "node-label.kops.k8s.io.tier": "web", "kops.k8s.io/instance-userdata": "sha256." + base64.RawURLEncoding.EncodeToString(sum[:])} {
		if n.ServerLabels[key] != want {
			t.Errorf("%s is %q, want %q", key, n.ServerLabels[key], want)
		}
	}
	args := strings.Join(as[appsv1.Deployment](t, all, "Deployment/cluster-autoscaler").Spec.Template.Spec.Containers[0].Command, " ")
	if !strings.Contains(args, "--nodes=1:4:cx33:fsn1:nodes") {
		t.Error(args)
	}
	if p := as[corev1.ConfigMap](t, all, "ConfigMap/cluster-autoscaler-priority-expander").Data["priorities"]; !strings.Contains(p, "- nodes") {
		t.Error(p)
	}
}
