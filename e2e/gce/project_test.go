package gce

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/gs"
	"kops.local/kops/internal/store/gs/gstest"
	"kops.local/kops/internal/test/cloudsuite"
	"kops.local/kops/internal/test/proxy"
)

// account is a project at an emulator.
type account struct {
	*emulator.Emulator
	api    *gceapi.Clients // bypasses the proxy
	quotas map[string]float64
	tpms   sync.Map // the attestation keys of instances, by name
}

// of returns the project of a world.
func of(w *cloudsuite.World) *account { return w.Own.(*account) }

// open creates a project with a state store.
func open(t testing.TB) cloudsuite.Account {
	objects := gstest.Start(t)
	objects.Bucket(t, bucket)
	a := &account{quotas: map[string]float64{}}
	var err error
	a.Emulator, err = emulator.New(emulator.Options{Project: project, Buckets: []emulator.Bucket{{Name: bucket}}, Objects: objects, Latency: 20 * time.Millisecond, Boot: 50 * time.Millisecond,
		DNSZones: []emulator.DNSZone{{Name: "example", DNSName: "example.com."}}, LateInUse: true, Quotas: a.quotas, EKPub: a.tpm,
		Others: []string{"ubuntu-os-cloud", host}, Images: []emulator.Image{{Project: "ubuntu-os-cloud", Name: "ubuntu-2404-noble-amd64-v20260615", Family: "ubuntu-2404-lts-amd64"}},
		OnBug: func(err error) { t.Errorf("the emulator: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	sleep := func(ctx context.Context, _ time.Duration) error { time.Sleep(time.Millisecond); return ctx.Err() }
	a.api, err = gceapi.Connect(t.Context(), gceapi.Config{Project: project, Region: region, Endpoint: server.URL, HTTPClient: http.DefaultClient, UserAgent: "test", Sleep: sleep})
	if err != nil {
		t.Fatal(err)
	}
	state, err := store.Backends{gs.Backend(gs.Config{Endpoint: objects.URL})}.Open(t.Context(), "gs://"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	p := proxy.New(t, server.URL, dialect)
	return cloudsuite.Account{Proxy: p, Store: state, Objects: a.Inventory, Own: a,
		Env: map[string]string{"KOPS_STATE_STORE": "gs://" + bucket, "KOPS_GCE_ENDPOINT": p.URL, "STORAGE_EMULATOR_HOST": p.URL}}
}

// tpm returns the attestation key of an instance's TPM.
func (a *account) tpm(i emulator.Instance) (string, error) {
	key, ok := a.tpms.Load(i.Name)
	if !ok {
		return "", errors.New("the instance has no TPM")
	}
	return key.(string), nil
}

// withoutNames removes the names that differ from run to run: names of instances and their boot disks,
// and the digests in names of templates.
func withoutNames(inventory []string) []string {
	var out []string
	for _, s := range inventory {
		boots := strings.Contains(s, "/disks/") && slices.Contains(inventory, strings.Replace(s, "/disks/", "/instances/", 1))
		if boots || strings.Contains(s, "/instances/") || strings.Contains(s, "/instanceTemplates/") {
			s = s[:strings.LastIndex(s, "-")]
		}
		out = append(out, s)
	}
	return out
}

// done returns a function that waits for an operation, which must succeed.
func (a *account) done(w *cloudsuite.World) func(*compute.Operation, error) {
	return func(op *compute.Operation, err error) {
		w.Helper()
		if err := a.api.Await(w.Context())(op, err); err != nil {
			w.Fatal(err)
		}
	}
}

// checkExists checks that an object of a path exists, or does not.
func checkExists(w *cloudsuite.World, want bool, path string) {
	w.Helper()
	if is := slices.Contains(of(w).Inventory(), "projects/"+project+"/"+path); is != want {
		w.Errorf("%s exists: %v, want %v", path, is, want)
	}
}

// checkSize checks the desired number of machines of a group in a zone.
func checkSize(w *cloudsuite.World, group, zone string, want int64) {
	w.Helper()
	m, err := of(w).api.Compute.InstanceGroupManagers.Get(project, zone, gcename.Group(group, zone, name)).Do()
	if err != nil || m.TargetSize != want {
		w.Errorf("the group %s is %+v in %s, %v, want %d machines", group, m, zone, err, want)
	}
}

// checkSource checks from where a firewall rule lets in.
func checkSource(w *cloudsuite.World, rule, want string) {
	w.Helper()
	f, err := of(w).api.Compute.Firewalls.Get(project, gcename.Suffixed(rule, name)).Do()
	if err != nil || !slices.Equal(f.SourceRanges, []string{want}) || f.Disabled {
		w.Errorf("%s lets in %+v, %v, want %s", rule, f, err, want)
	}
}

// changed checks what changes have done.
func changed() map[string]func(*cloudsuite.World) {
	return map[string]func(*cloudsuite.World){
		"the sizes of a group": func(w *cloudsuite.World) { checkSize(w, w.Nodes(), region+"-a", 1) }, // set once
		"who may come in": func(w *cloudsuite.World) {
			checkSource(w, "ssh-external-to-node", "192.0.2.0/24")
			checkSource(w, "ssh-external-to-node-ipv6", "2001:db8::/32")
		},
		"a group in several zones": func(w *cloudsuite.World) {
			checkSize(w, "more", region+"-b", 2)
			checkSize(w, "more", region+"-c", 1)
		},
		"one zone more": func(w *cloudsuite.World) { checkSize(w, "more", region+"-a", 1) },
		"larger disks of etcd": func(w *cloudsuite.World) {
			d, err := of(w).api.Compute.Disks.Get(project, region+"-a", gcename.EtcdDisk("a", "main", name)).Do()
			if err != nil || d.SizeGb != 30 {
				w.Errorf("the disk of etcd is %+v, %v, want 30 GB", d, err)
			}
		},
		"a balancer, Public": func(w *cloudsuite.World) {
			checkExists(w, true, "regions/"+region+"/forwardingRules/"+gcename.Suffixed("api", name))
			checkExists(w, true, "regions/"+region+"/forwardingRules/"+gcename.Suffixed("api-"+region, name))
		},
		"a balancer, Internal": func(w *cloudsuite.World) {
			checkExists(w, false, "regions/"+region+"/forwardingRules/"+gcename.Suffixed("api", name))
			checkExists(w, true, "regions/"+region+"/forwardingRules/"+gcename.Suffixed("api-"+region, name))
		},
		"a roll": func(w *cloudsuite.World) {
			if r := w.Preview(); !strings.Contains(r.Out, "Plan: 1 to delete") || !strings.Contains(r.Out, "No changes for machines in 2 groups") {
				w.Errorf("after the roll the old template is deleted, and no machine:\n%s", r.Out)
			}
			w.Apply()
		},
	}
}

// fillUp uses up the quotas of firewall rules and instance templates.
func fillUp(w *cloudsuite.World, full bool) {
	delete(of(w).quotas, "FIREWALLS")
	delete(of(w).quotas, "INSTANCE_TEMPLATES")
	if full {
		of(w).quotas["FIREWALLS"], of(w).quotas["INSTANCE_TEMPLATES"] = 3, 1
	}
}

// block creates a firewall rule in the cluster's network.
func block(w *cloudsuite.World) (name string, remove func()) {
	a := of(w)
	a.done(w)(a.api.Compute.Firewalls.Insert(project, &compute.Firewall{Name: "theirs", Network: "projects/" + project + "/global/networks/" + gcename.Network(cloudsuite.Name),
		SourceRanges: []string{"192.0.2.0/24"}, Allowed: []*compute.FirewallAllowed{{IPProtocol: "tcp"}}}).Do())
	return "theirs", func() {
		a.done(w)(a.api.Compute.Firewalls.Delete(project, "theirs").Do())
	}
}

// release abandons an instance.
func release(w *cloudsuite.World, m platform.Machine) {
	a := of(w)
	a.done(w)(a.api.Compute.InstanceGroupManagers.AbandonInstances(project, m.Zone, gcename.Group(m.Group, m.Zone, name),
		&compute.InstanceGroupManagersAbandonInstancesRequest{Instances: []string{"zones/" + m.Zone + "/instances/" + m.Name}}).Do())
}
