package model_test

import (
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/test/platformtest"
)

func TestEtcdOfALocalClusterIsOnFoldersOfItsMachines(t *testing.T) {
	in := input(t, golden+"minimal-dns-none")
	in.Cluster.Spec.CloudProvider = api.CloudProviderSpec{Local: &api.LocalSpec{}}
	in.Traits = &platformtest.Of(in.Cluster).Traits
	all, _ := build(t, in)
	found := 0
	for name, f := range all {
		etcd, ok := strings.CutPrefix(name, "manifests-etcdmanager-")
		if !ok {
			continue
		}
		found++
		etcd, _, _ = strings.Cut(etcd, "-")
		text, _ := f.Content.Value().Known()
		for _, flag := range []string{"--volume-provider=local", "--volume-tag=" + in.Cluster.Name + "--" + etcd + "--", "--containerized=true", "--dns-suffix=.internal." + in.Cluster.Name} {
			if !strings.Contains(text, "- "+flag+"\n") {
				t.Errorf("%s has no %s:\n%s", name, flag, text)
			}
		}
		if strings.Contains(text, "volume-name-tag") {
			t.Errorf("%s names a tag, which no folder has", name)
		}
	}
	if found != 2 {
		t.Errorf("%d manifests of etcd-manager", found)
	}
}

func TestAPIServersWithoutEtcdFindItByName(t *testing.T) {
	in := input(t, golden+"irsa")
	manifests := func() map[string]string {
		all, _ := build(t, in)
		out := map[string]string{}
		for _, etcd := range []string{"main", "events"} {
			out[etcd], _ = all["manifests-etcdmanager-"+etcd+"-master-us-test-1a"].Content.Value().Known()
		}
		return out
	}
	for etcd, text := range manifests() {
		if strings.Contains(text, etcd+".etcd.internal.") || strings.Contains(text, "annotations") {
			t.Errorf("%s has a name that nobody asks for:\n%s", etcd, text)
		}
	}
	apart := *group(t, in, api.RoleControlPlane)
	apart.Name, apart.Spec.Role = "apart", api.RoleAPIServer
	in.Groups = append(in.Groups, &apart)
	ports := map[string]string{"main": "4001", "events": "4002"}
	for etcd, text := range manifests() {
		name := etcd + ".etcd.internal." + in.Cluster.Name
		for _, line := range []string{"    dns.alpha.kubernetes.io/internal: " + name + "\n", "- --client-urls=https://" + name + ":" + ports[etcd] + "\n", "- --peer-urls=https://__name__:"} {
			if !strings.Contains(text, line) {
				t.Errorf("%s lacks %q:\n%s", etcd, line, text)
			}
		}
	}
}

// With the feature EtcdEventsHTTP, the API server connects to the events etcd without TLS: the
// managers of events then serve without TLS, and the managers of main with it.
func TestEtcdServesTLSAsTheAPIServerCallsIt(t *testing.T) {
	in := input(t, golden+"irsa")
	flags := func(etcd string) string {
		all, _ := build(t, in)
		text, _ := all["manifests-etcdmanager-"+etcd+"-master-us-test-1a"].Content.Value().Known()
		return text
	}
	if text := flags("events"); strings.Contains(text, "http://__name__") || strings.Contains(text, "etcd-insecure") {
		t.Errorf("nobody asks for plain HTTP:\n%s", text)
	}
	in.Cluster.Spec.KubeAPIServer.EtcdServersOverrides = []string{"/events#http://127.0.0.1:4002"}
	text := flags("events")
	for _, flag := range []string{"--client-urls=http://__name__:4002", "--etcd-insecure=true", "--peer-urls=http://__name__:2381", "--quarantine-client-urls=http://__name__:3995"} {
		if !strings.Contains(text, "- "+flag+"\n") {
			t.Errorf("events lacks %s:\n%s", flag, text)
		}
	}
	if text := flags("main"); strings.Contains(text, "http://__name__") || strings.Contains(text, "etcd-insecure") {
		t.Errorf("main serves no TLS:\n%s", text)
	}
}
