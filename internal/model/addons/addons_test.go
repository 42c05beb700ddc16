package addons_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/platform/aws/awscloud"
	awsspec "kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/test/goldentest"
)

// cluster completes a small AWS cluster with changes.
func cluster(t *testing.T, change func(*api.ClusterSpec)) addons.Input {
	t.Helper()
	return changed(t, goldentest.Read(t, "../testdata/update_cluster/irsa", "in-v1alpha2.yaml"), func(s *api.ClusterSpec) {
		s.CertManager, s.CloudProvider.AWS, s.ServiceAccountIssuerDiscovery = nil, &api.AWSSpec{}, nil
		change(s)
	})
}

// withOwnFacts returns facts with changes to the AWS-specific part.
func withOwnFacts(t *testing.T, f *facts.Facts, change func(*awsspec.Facts)) *facts.Facts {
	t.Helper()
	c := *f.Of("aws")
	o, err := facts.OwnAs[awsspec.Facts](&c)
	if err != nil {
		t.Fatal(err)
	}
	change(&o)
	if err := c.SetOwn(o); err != nil {
		t.Fatal(err)
	}
	return &facts.Facts{Clouds: map[string]*facts.Cloud{"aws": &c}}
}

func ptr[T any](v T) *T { return &v }

// variants returns clusters that together use every add-on that has a manifest, with its options.
func variants() map[string]func(*api.ClusterSpec) {
	return map[string]func(*api.ClusterSpec){
		"minimal": func(*api.ClusterSpec) {},
		"no DNS":  func(s *api.ClusterSpec) { s.Networking.Topology = &api.TopologySpec{DNS: api.DNSNone} },
		"external DNS": func(s *api.ClusterSpec) {
			s.ExternalDNS = &api.ExternalDNSConfig{Provider: api.ExternalDNSProviderExternalDNS}
		},
		"calico": withNetwork(api.NetworkingSpec{Calico: &api.CalicoNetworkingSpec{MTU: ptr(int32(1440)), TyphaReplicas: 2, WireguardEnabled: ptr(true)}}),
		"cilium": withNetwork(api.NetworkingSpec{Cilium: &api.CiliumNetworkingSpec{Hubble: &api.HubbleSpec{Enabled: ptr(true), Metrics: []string{"drop"}},
			ExtraConfig: map[string]string{"debug": "true"}}}),
		"cilium with its own addresses": withNetwork(api.NetworkingSpec{Cilium: &api.CiliumNetworkingSpec{IPAM: "eni", EnableEncryption: true}}),
		"cilium with etcd":              withNetwork(api.NetworkingSpec{Cilium: &api.CiliumNetworkingSpec{EtcdManaged: true}}),
		"flannel":                       withNetwork(api.NetworkingSpec{Flannel: &api.FlannelNetworkingSpec{Backend: "vxlan"}}),
		"kindnet":                       withNetwork(api.NetworkingSpec{Kindnet: &api.KindnetNetworkingSpec{}}),
		"kube-router":                   withNetwork(api.NetworkingSpec{KubeRouter: &api.KuberouterNetworkingSpec{}}),
		"amazon-vpc":                    withNetwork(api.NetworkingSpec{AmazonVPC: &api.AmazonVPCNetworkingSpec{Env: []api.EnvVar{{Name: "WARM_IP_TARGET", Value: "2"}}}}),
		"kopeio":                        withNetwork(api.NetworkingSpec{Kopeio: &api.KopeioNetworkingSpec{}}),
		"everything optional": func(s *api.ClusterSpec) {
			s.IAM.UseServiceAccountExternalPermissions = ptr(true)
			s.ServiceAccountIssuerDiscovery = &api.ServiceAccountIssuerDiscoveryConfig{DiscoveryStore: "s3://testingBucket/d", EnableAWSOIDCProvider: true}
			s.CertManager = &api.CertManagerConfig{Enabled: ptr(true), DefaultIssuer: ptr("yours"), Nameservers: []string{"1.1.1.1"}}
			s.CloudProvider.AWS.PodIdentityWebhook = &api.PodIdentityWebhookSpec{Enabled: true, Replicas: 2}
			s.CloudProvider.AWS.LoadBalancerController = &api.LoadBalancerControllerSpec{Enabled: ptr(true)}
			s.ClusterAutoscaler = &api.ClusterAutoscalerConfig{Enabled: ptr(true), CreatePriorityExpanderConfig: ptr(true), Expander: "priority"}
			s.MetricsServer = &api.MetricsServerConfig{Enabled: ptr(true), Insecure: ptr(false)}
			s.NodeProblemDetector = &api.NodeProblemDetectorConfig{Enabled: ptr(true)}
			s.Containerd = &api.ContainerdConfig{NvidiaGPU: &api.NvidiaGPUConfig{Enabled: ptr(true), DCGMExporter: &api.DCGMExporterConfig{Enabled: true}}}
			s.SnapshotController = &api.SnapshotControllerConfig{Enabled: ptr(true), InstallDefaultClass: true}
			s.KubeDNS = &api.KubeDNSConfig{NodeLocalDNS: &api.NodeLocalDNSConfig{Enabled: ptr(true)}, StubDomains: map[string][]string{"a.b": {"1.2.3.4", "1.2.3.5"}},
				UpstreamNameservers: []string{"8.8.8.8"}, PodAnnotations: map[string]string{"a": "b"}}
			s.Authentication = &api.AuthenticationSpec{AWS: &api.AWSAuthenticationSpec{BackendMode: "CRD",
				IdentityMappings: []api.AWSAuthenticationIdentityMappingSpec{{ARN: "arn:aws:iam::1:role/a", Username: "u:{{SessionName}}", Groups: []string{"g"}}, {ARN: "b", Username: "c"}}}}
		},
		"insecure metrics and the machine's own events": func(s *api.ClusterSpec) {
			s.MetricsServer = &api.MetricsServerConfig{Enabled: ptr(true)}
			s.CloudProvider.AWS.NodeTerminationHandler = &api.NodeTerminationHandlerSpec{EnableSQSTerminationDraining: ptr(false)}
			s.Authentication = &api.AuthenticationSpec{AWS: &api.AWSAuthenticationSpec{
				IdentityMappings: []api.AWSAuthenticationIdentityMappingSpec{{ARN: "arn:aws:iam::1:role/a", Username: "u", Groups: []string{"g"}}}}}
		},
		"karpenter": func(s *api.ClusterSpec) { s.Karpenter = &api.KarpenterConfig{Enabled: true} },
		"load balancers without roles": func(s *api.ClusterSpec) {
			s.IAM, s.ServiceAccountIssuerDiscovery = nil, nil
			s.CloudProvider.AWS.LoadBalancerController = &api.LoadBalancerControllerSpec{Enabled: ptr(true)}
			s.CertManager = &api.CertManagerConfig{Enabled: ptr(true)}
		},
	}
}

// inputs returns all variants.
func inputs() map[string]func(*testing.T) addons.Input {
	out := map[string]func(*testing.T) addons.Input{}
	for name, change := range variants() {
		out[name] = func(t *testing.T) addons.Input { t.Helper(); return cluster(t, change) }
	}
	for name, change := range variantsOnGCE() {
		out[name] = func(t *testing.T) addons.Input { t.Helper(); return onGCE(t, change) }
	}
	return out
}

func build(t *testing.T, in addons.Input) *addons.Result {
	t.Helper()
	r, err := addons.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// typeOf returns the type for strictly checking an object; objects of other kinds are custom
// resources.
func typeOf(kind string) any {
	return map[string]any{
		"ClusterRole": &rbacv1.ClusterRole{}, "ClusterRoleBinding": &rbacv1.ClusterRoleBinding{}, "Role": &rbacv1.Role{}, "RoleBinding": &rbacv1.RoleBinding{},
		"ConfigMap": &corev1.ConfigMap{}, "Service": &corev1.Service{}, "ServiceAccount": &corev1.ServiceAccount{}, "LimitRange": &corev1.LimitRange{},
		"Namespace": &corev1.Namespace{}, "Secret": &corev1.Secret{}, "Deployment": &appsv1.Deployment{}, "DaemonSet": &appsv1.DaemonSet{},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudget{}, "StorageClass": &storagev1.StorageClass{}, "CSIDriver": &storagev1.CSIDriver{},
		"PriorityClass":                  &schedulingv1.PriorityClass{},
		"MutatingWebhookConfiguration":   &admissionregistrationv1.MutatingWebhookConfiguration{},
		"ValidatingWebhookConfiguration": &admissionregistrationv1.ValidatingWebhookConfiguration{},
		"ValidatingAdmissionPolicy":      &admissionregistrationv1.ValidatingAdmissionPolicy{}, "ValidatingAdmissionPolicyBinding": &admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
	}[kind]
}

func TestManifestsHoldValidObjects(t *testing.T) {
	unknown := map[string]bool{}
	for name, in := range inputs() {
		t.Run(name, func(t *testing.T) {
			for _, f := range build(t, in(t)).Files {
				seen := map[string]bool{}
				for _, o := range objectsOf(t, f) {
					text, err := json.Marshal(o)
					if err != nil {
						t.Fatal(err)
					}
					var id struct {
						Kind     string
						Metadata struct{ Name, Namespace string }
					}
					if err := json.Unmarshal(text, &id); err != nil {
						t.Fatal(err)
					}
					key := fmt.Sprintf("%s %s/%s", id.Kind, id.Metadata.Namespace, id.Metadata.Name)
					if seen[key] || id.Metadata.Name == "" {
						t.Errorf("%s: %s occurs twice, or has no name", f.Path, key)
					}
					seen[key] = true
					into := typeOf(id.Kind)
					if into == nil {
						unknown[id.Kind] = true
						continue
					}
					d := json.NewDecoder(bytes.NewReader(text))
					d.DisallowUnknownFields()
					if err := d.Decode(into); err != nil {
						t.Errorf("%s: %s: %v", f.Path, key, err)
					}
					checkPods(t, f.Path+": "+key, into)
				}
			}
		})
	}
	want := []string{"CustomResourceDefinition"}
	for k := range unknown {
		if !slices.Contains(want, k) && !slices.Contains([]string{"IAMIdentityMapping", "Certificate", "Issuer", "VolumeSnapshotClass", "IngressClassParams", "IngressClass", "APIService", "EC2NodeClass", "NodePool", "RuntimeClass"}, k) {
			t.Errorf("objects of the kind %s are not checked", k)
		}
	}
}

// checkPods finds what the API server would reject in the pods of a workload.
func checkPods(t *testing.T, what string, workload any) {
	t.Helper()
	var pods corev1.PodTemplateSpec
	var selector map[string]string
	switch w := workload.(type) {
	case *appsv1.Deployment:
		pods, selector = w.Spec.Template, w.Spec.Selector.MatchLabels
	case *appsv1.DaemonSet:
		pods, selector = w.Spec.Template, w.Spec.Selector.MatchLabels
	default:
		return
	}
	for k, v := range selector {
		if pods.Labels[k] != v {
			t.Errorf("%s: its selector %s=%s does not select its pods", what, k, v)
		}
	}
	volumes := map[string]bool{}
	for _, v := range pods.Spec.Volumes {
		if volumes[v.Name] {
			t.Errorf("%s: the volume %s occurs twice", what, v.Name)
		}
		volumes[v.Name] = true
	}
	used := map[string]bool{}
	for _, c := range append(slices.Clone(pods.Spec.InitContainers), pods.Spec.Containers...) {
		if !strings.Contains(c.Image, ":") {
			t.Errorf("%s: container %s has the image %q", what, c.Name, c.Image)
		}
		for _, m := range c.VolumeMounts {
			used[m.Name] = true
			if !volumes[m.Name] {
				t.Errorf("%s: container %s mounts the volume %s, which does not exist", what, c.Name, m.Name)
			}
		}
	}
	for v := range volumes {
		if !used[v] {
			t.Errorf("%s: nothing mounts the volume %s", what, v)
		}
	}
	if token := pods.Spec.AutomountServiceAccountToken; len(pods.Spec.Containers) == 0 || pods.Spec.ServiceAccountName == "" && (token == nil || *token) {
		t.Errorf("%s: no container, or no service account", what)
	}
}

func TestServiceAccountsAndRolesOfPodsExist(t *testing.T) {
	for name, in := range inputs() {
		t.Run(name, func(t *testing.T) {
			for _, f := range build(t, in(t)).Files {
				exists, wanted := map[string]bool{}, map[string]bool{}
				for _, o := range objectsOf(t, f) {
					meta, _ := o["metadata"].(map[string]any)
					switch kind := o["kind"]; kind {
					case "ServiceAccount", "ClusterRole", "Role":
						exists[fmt.Sprint(kind, "/", meta["name"])] = true
					case "ClusterRoleBinding", "RoleBinding":
						ref, _ := o["roleRef"].(map[string]any)
						if n := fmt.Sprint(ref["name"]); n != "extension-apiserver-authentication-reader" && n != "system:auth-delegator" && n != "system:kubelet-api-admin" && n != "system:node-problem-detector" {
							wanted[fmt.Sprint(ref["kind"], "/", n)] = true
						}
						subjects, _ := o["subjects"].([]any)
						for _, s := range subjects {
							if m, _ := s.(map[string]any); m["kind"] == "ServiceAccount" && m["name"] != "aws-cloud-provider" { // it was part of Kubernetes
								wanted[fmt.Sprint("ServiceAccount/", m["name"])] = true
							}
						}
					case "Deployment", "DaemonSet":
						spec, _ := o["spec"].(map[string]any)
						template, _ := spec["template"].(map[string]any)
						pod, _ := template["spec"].(map[string]any)
						if account := pod["serviceAccountName"]; account != nil {
							wanted[fmt.Sprint("ServiceAccount/", account)] = true
						}
					}
				}
				for w := range wanted {
					if !exists[w] {
						t.Errorf("%s refers to %s, which it does not hold", f.Path, w)
					}
				}
			}
		})
	}
}

func TestTheChannelListsTheFiles(t *testing.T) {
	r := build(t, cluster(t, variants()["everything optional"]))
	got := channelOf(t, r)
	if got.Kind != "Addons" || got.Name != "bootstrap" || got.APIVersion != "" || len(got.Spec.Addons) != len(r.Files) {
		t.Errorf("channel %s", r.Channel)
	}
	for i, a := range got.Spec.Addons {
		sum := sha256.Sum256(bytes.TrimSpace(r.Files[i].Content))
		if a.Manifest != r.Files[i].Path || a.ManifestHash != hex.EncodeToString(sum[:]) || a.Name != r.Files[i].Name {
			t.Errorf("entry %+v of %s", a, r.Files[i].Path)
		}
	}
	byName := map[string]api.Addon{}
	for _, a := range got.Spec.Addons {
		byName[a.Name] = a
	}
	if a := byName["kops-controller.addons.k8s.io"]; a.NeedsRollingUpdate != "control-plane" || a.ID != "k8s-1.16" || a.Selector["k8s-addon"] != a.Name || a.Prune != nil {
		t.Errorf("%+v", a)
	}
	if a := byName["certmanager.io"]; a.Selector != nil || a.Prune == nil {
		t.Errorf("%+v", a)
	}
	if a := byName["metrics-server.addons.k8s.io"]; a.Selector["k8s-app"] != "metrics-server" || !a.NeedsPKI {
		t.Errorf("%+v", a)
	}
	if a := byName["limit-range.addons.k8s.io"]; a.ID != "" || a.Manifest != "limit-range.addons.k8s.io/v1.5.0.yaml" {
		t.Errorf("%+v", a)
	}
}

// An add-on that holds the cluster's authority, or writes its names, does not run as root and
// writes no file.
func TestControllersHaveNoMoreRightsThanTheyUse(t *testing.T) {
	r := build(t, cluster(t, variants()["minimal"]))
	for name, p := range map[string]corev1.PodSpec{
		"kops-controller": object[appsv1.DaemonSet](t, r, "kops-controller.addons.k8s.io", "DaemonSet", "kops-controller").Spec.Template.Spec,
		"dns-controller":  object[appsv1.Deployment](t, r, "dns-controller.addons.k8s.io", "Deployment", "dns-controller").Spec.Template.Spec,
	} {
		c := p.Containers[0]
		s := c.SecurityContext
		if s == nil || s.Capabilities == nil || s.SeccompProfile == nil || s.AllowPrivilegeEscalation == nil || s.ReadOnlyRootFilesystem == nil {
			t.Errorf("%s: %+v", name, s)
			continue
		}
		if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !*s.RunAsNonRoot || len(s.Capabilities.Add) > 0 ||
			!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: %+v", name, s)
		}
		for _, m := range c.VolumeMounts {
			if !m.ReadOnly {
				t.Errorf("%s may write to %s", name, m.MountPath)
			}
		}
	}
}

func TestObjectsBearTheLabelsOfTheirAddon(t *testing.T) {
	for _, f := range build(t, cluster(t, variants()["minimal"])).Files {
		for _, o := range objectsOf(t, f) {
			meta, _ := o["metadata"].(map[string]any)
			labels, _ := meta["labels"].(map[string]any)
			if labels["app.kubernetes.io/managed-by"] != "kops" || labels["addon.kops.k8s.io/name"] != f.Name || labels["k8s-addon"] != f.Name {
				t.Errorf("%s: %v has the labels %v", f.Path, meta["name"], labels)
			}
		}
	}
}

func TestPruningNamesTheNamespacesOfTheObjects(t *testing.T) {
	got := channelOf(t, build(t, cluster(t, variants()["minimal"])))
	i := slices.IndexFunc(got.Spec.Addons, func(a api.Addon) bool { return a.Name == "node-termination-handler.aws" })
	kinds := map[string]api.PruneKind{}
	for _, k := range got.Spec.Addons[i].Prune.Kinds {
		kinds[k.Kind] = k
		if k.LabelSelector != "addon.kops.k8s.io/name=node-termination-handler.aws,app.kubernetes.io/managed-by=kops" {
			t.Errorf("%+v", k)
		}
	}
	for _, never := range []string{"Namespace", "CustomResourceDefinition", "NodePool", "Secret"} {
		if _, ok := kinds[never]; ok {
			t.Errorf("%s would be pruned", never)
		}
	}
	if len(kinds) != 13 || !slices.Equal(kinds["Deployment"].Namespaces, []string{"kube-system"}) || kinds["ClusterRole"].Namespaces != nil || kinds["ConfigMap"].Namespaces != nil {
		t.Errorf("%+v", slices.Sorted(maps.Keys(kinds)))
	}
}

// A mapping that a user removes from the spec would go on to grant access.
func TestMappingsOfTheAuthenticatorArePruned(t *testing.T) {
	var got api.Addons
	if err := yaml.Unmarshal(build(t, cluster(t, variants()["everything optional"])).Channel, &got); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(got.Spec.Addons, func(a api.Addon) bool { return a.Name == "authentication.aws" })
	if p := got.Spec.Addons[i].Prune; p == nil || !slices.ContainsFunc(p.Kinds, func(k api.PruneKind) bool {
		return k.Group == "iamauthenticator.k8s.aws" && k.Kind == "IAMIdentityMapping" && k.LabelSelector == "addon.kops.k8s.io/name=authentication.aws,app.kubernetes.io/managed-by=kops"
	}) {
		t.Errorf("%+v", p)
	}
}

func TestAnAddonThatIsNotWantedIsEmptiedByPruning(t *testing.T) {
	r := build(t, cluster(t, variants()["no DNS"]))
	i := slices.IndexFunc(r.Files, func(f addons.File) bool { return f.Name == "dns-controller.addons.k8s.io" })
	if i < 0 || strings.TrimSpace(string(r.Files[i].Content)) != "" {
		t.Fatalf("dns-controller without DNS: %s", r.Files[i].Content)
	}
	if channelOf(t, r).Spec.Addons[i].Prune == nil {
		t.Error("its objects would stay")
	}
	for _, f := range r.Findings {
		if strings.Contains(f.Object, "dns-controller") {
			t.Errorf("finding %s", f)
		}
	}
}

func TestObjectsOfTheUsers(t *testing.T) {
	own := func(text string) []map[string]any {
		objects, err := addons.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return objects
	}
	in := cluster(t, variants()["cilium"])
	in.Objects = own(`apiVersion: v1
kind: ConfigMap
metadata: {name: mine, labels: {a: b}}
---
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
---
apiVersion: v1
kind: ConfigMap
metadata: {name: cilium-config, namespace: kube-system, labels: {addon.kops.k8s.io/name: networking.cilium.io}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: sly, labels: {addon.kops.k8s.io/name: kops-controller.addons.k8s.io}}
`)
	r := build(t, in)
	byName := map[string]string{}
	for _, f := range r.Files {
		byName[f.Name] = string(f.Content)
	}
	if got, want := byName["cluster-addons.kops.k8s.io"], "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels:\n    a: b\n  name: mine\n\n---\n\n"+
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels:\n    addon.kops.k8s.io/name: kops-controller.addons.k8s.io\n  name: sly\n"; got != want {
		t.Errorf("the user's objects became\n%s", got)
	}
	if got := byName["networking.cilium.io"]; strings.Count(got, "kind:") != 1 || !strings.Contains(got, "name: cilium-config") {
		t.Errorf("cilium is\n%s", got)
	}
	if got := byName["kops-controller.addons.k8s.io"]; !strings.Contains(got, "kind: DaemonSet") || strings.Contains(got, "sly") {
		t.Errorf("what no cluster can do without is\n%s", got)
	}
}

func TestPodsActInRolesOfTheirServiceAccounts(t *testing.T) {
	r := build(t, cluster(t, variants()["everything optional"]))
	roles := map[string]int{}
	for _, o := range objectsOf(t, fileOf(t, r, "aws-ebs-csi-driver.addons.k8s.io")) {
		text, _ := yaml.Marshal(o)
		if k := fmt.Sprint(o["kind"]); k == "Deployment" || k == "DaemonSet" {
			roles[k] = strings.Count(string(text), "arn:aws-test:iam::123456789012:role/ebs-csi-controller-sa.kube-system.sa.minimal.example.com")
		}
	}
	if roles["Deployment"] != 6 || roles["DaemonSet"] != 0 {
		t.Errorf("containers with the role: %v", roles)
	}
}

// group returns an instance group; the role of its machines comes from profile, if set.
func group(name string, role api.InstanceGroupRole, profile string) *api.InstanceGroup {
	g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: role, MinSize: ptr(int32(1)), MaxSize: ptr(int32(3))}}
	if g.Name = name; profile != "" {
		g.Spec.IAM = &api.IAMProfileSpec{Profile: &profile}
	}
	return g
}

func TestOnlyMachinesOutsideTheControlPlaneMayAskForCertificates(t *testing.T) {
	in := cluster(t, variants()["minimal"])
	in.Facts = withOwnFacts(t, in.Facts, func(f *awsspec.Facts) {
		f.InstanceProfiles = map[string]string{"arn:own": "shared", "arn:masters": "shared-masters", "arn:bastions": "shared-bastions"}
	})
	in.Groups = []*api.InstanceGroup{
		group("m", api.RoleControlPlane, "arn:masters"), group("b", api.RoleBastion, "arn:bastions"), group("a", api.RoleAPIServer, ""),
		group("n1", api.RoleNode, ""), group("n2", api.RoleNode, "arn:own"), group("n3", api.RoleNode, ""),
	}
	config := object[corev1.ConfigMap](t, build(t, in), "kops-controller.addons.k8s.io", "ConfigMap", "kops-controller").Data["config.yaml"]
	conf, err := controllerconfig.Parse([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	var own awscloud.Controller
	if err := conf.Section(&own); err != nil {
		t.Fatal(err)
	}
	want := []string{"apiservers.minimal.example.com", "nodes.minimal.example.com", "shared"}
	if got := own.NodesRoles; !slices.Equal(got, want) {
		t.Errorf("%v may ask, want %v", got, want)
	}
	profiles := map[string]string{"apiservers.minimal.example.com": "apiservers.minimal.example.com", "nodes.minimal.example.com": "nodes.minimal.example.com", "arn:own": "shared"}
	if got := own.NodesProfiles; !maps.Equal(got, profiles) {
		t.Errorf("profiles %v, want %v", got, profiles)
	}
}

func TestTheAutoscalerChangesGroupsOfNodesUnlessAUserSaidNo(t *testing.T) {
	in := cluster(t, variants()["everything optional"])
	asked, kept, karpenter := group("asked", api.RoleNode, ""), group("kept", api.RoleNode, ""), group("karpenter", api.RoleNode, "")
	asked.Spec.Autoscale, kept.Spec.Autoscale, karpenter.Spec.Manager = ptr(true), ptr(false), api.ManagerKarpenter
	in.Groups = []*api.InstanceGroup{group("m", api.RoleControlPlane, ""), asked, kept, karpenter, group("apis", api.RoleAPIServer, ""), group("usual", api.RoleNode, "")}
	d := object[appsv1.Deployment](t, build(t, in), "cluster-autoscaler.addons.k8s.io", "Deployment", "cluster-autoscaler")
	var got []string
	for _, arg := range slices.Concat(d.Spec.Template.Spec.Containers[0].Command, d.Spec.Template.Spec.Containers[0].Args) {
		if g, ok := strings.CutPrefix(arg, "--nodes="); ok {
			got = append(got, g)
		}
	}
	if want := []string{"1:3:asked.minimal.example.com", "1:3:usual.minimal.example.com"}; !slices.Equal(got, want) {
		t.Errorf("it changes %v, want %v", got, want)
	}
}

func TestReplicasFollowTheGroups(t *testing.T) {
	for _, c := range []struct{ controlPlanes, machines, nodes, scalers, resolvers int32 }{{1, 1, 0, 1, 1}, {1, 1, 1, 1, 1}, {1, 3, 1, 1, 1}, {2, 1, 2, 2, 2}, {3, 1, 5, 2, 2}} {
		n := group("n", api.RoleNode, "")
		n.Spec.MinSize = &c.nodes
		groups := []*api.InstanceGroup{n}
		for i := range c.controlPlanes {
			m := group(fmt.Sprint("m", i), api.RoleControlPlane, "")
			m.Spec.MinSize = &c.machines
			groups = append(groups, m)
		}
		replicas := func(in addons.Input, addon, name string) int32 {
			in.Groups = groups
			return *object[appsv1.Deployment](t, build(t, in), addon, "Deployment", name).Spec.Replicas
		}
		if got := replicas(cluster(t, variants()["everything optional"]), "cluster-autoscaler.addons.k8s.io", "cluster-autoscaler"); got != c.scalers {
			t.Errorf("%+v: %d of the autoscaler", c, got)
		}
		if got := replicas(local(t, func(*api.ClusterSpec) {}), "coredns.addons.k8s.io", "coredns"); got != c.resolvers {
			t.Errorf("%+v: %d of coredns", c, got)
		}
	}
}

func TestAddressesInChina(t *testing.T) {
	in := cluster(t, variants()["minimal"])
	account := ""
	in.Region = "cn-north-1"
	in.Facts = withOwnFacts(t, in.Facts, func(f *awsspec.Facts) { f.Partition, account = "aws-cn", f.AccountID })
	d := object[appsv1.Deployment](t, build(t, in), "node-termination-handler.aws", "Deployment", "aws-node-termination-handler")
	want := corev1.EnvVar{Name: "QUEUE_URL", Value: "https://sqs.cn-north-1.amazonaws.com.cn/" + account + "/minimal-example-com-nth"}
	if env := d.Spec.Template.Spec.Containers[0].Env; !slices.Contains(env, want) {
		t.Errorf("%v lacks %v", env, want)
	}
}

func TestImagesComeFromTheMirrorByDigest(t *testing.T) {
	in := cluster(t, func(s *api.ClusterSpec) { s.Assets = &api.AssetsSpec{ContainerProxy: ptr("proxy.e.com")} })
	in.Facts = &facts.Facts{Clouds: in.Facts.Clouds, ImageDigests: map[string]string{"kops.internal/kops-controller:1.37.0": "sha256:ab"}}
	f := fileOf(t, build(t, in), "kops-controller.addons.k8s.io")
	want := addons.Image{Public: "kops.internal/kops-controller:1.37.0", Used: "proxy.e.com/kops-controller:1.37.0@sha256:ab"}
	if !slices.Equal(f.Images, []addons.Image{want}) || !strings.Contains(string(f.Content), "image: "+want.Used) {
		t.Errorf("images %v of\n%s", f.Images, f.Content)
	}
}

func TestADigestThatAUserNamedStays(t *testing.T) {
	const image = "registry.k8s.io/pause:3.10@sha256:aa"
	if got := addons.Pull(image, nil, &facts.Facts{ImageDigests: map[string]string{image: "sha256:bb"}}); got != image {
		t.Errorf("pulled as %s", got)
	}
}
