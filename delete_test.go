package kops_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/fakecloud"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/test/platformtest"
)

func TestDeleteGroup(t *testing.T) {
	b := newAppliedBench(t)
	b.addGroup("spare")
	b.apply(kops.UpdateOptions{})
	b.expectResources("", "api", "control-plane-here", "nodes-here", "spare")

	var shown []string
	o := kops.DeleteOptions{On: kops.OnPlan(func(u *kops.Update) error { shown = changes(u.Plan); return nil })}
	if err := b.DeleteGroup(t.Context(), name, "spare", o); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(shown, []string{"delete machines/spare"}) {
		t.Errorf("shown are %q", shown)
	}
	b.expectResources("", "api", "control-plane-here", "nodes-here", "spare")

	o.Apply = true
	if err := b.DeleteGroup(t.Context(), name, "spare", o); err != nil {
		t.Fatal(err)
	}
	b.expectResources("", "api", "control-plane-here", "nodes-here")
	if c, err := b.Clusters().Get(t.Context(), name); err != nil || c.Group("spare") != nil || len(c.Groups) != 2 {
		t.Errorf("the group is still stored: %v, %v", c.Groups, err)
	}
	if p := b.preview(kops.UpdateOptions{}).Plan; !p.Empty() || len(p.Deferred) > 0 {
		t.Errorf("something is left to do after a group was deleted: %v, and later %v", changes(p), p.Deferred)
	}
	if all, err := b.Clusters().Revisions(t.Context(), name); err != nil || all[0].Result != "stored" || all[1].Result != "done" || all[1].Message != "2 deleted" {
		t.Errorf("revisions are %+v, %v", all, err)
	}
}

// A deletion does not need what creating machines would need.
func TestAGroupThatCouldNotBeCreatedIsDeleted(t *testing.T) {
	b := newAppliedBench(t)
	b.addGroup("spare")
	b.apply(kops.UpdateOptions{})
	missing := errors.New("there is no bundle")
	p := inside[platform.Provider](b.world.Provider())
	p.Lookup.Facts = func(context.Context, *platform.Session, *api.Cluster, []*api.InstanceGroup) (*facts.Facts, error) {
		return nil, missing
	}
	c := b.client(func(c *kops.Config) { c.Clouds = []kops.Provider{p} })
	if _, err := c.Update(t.Context(), name, kops.UpdateOptions{}); !errors.Is(err, missing) {
		t.Fatalf("an update: %v", err)
	}
	for _, apply := range []bool{false, true} {
		var shown []string
		o := kops.DeleteOptions{Apply: apply, On: kops.OnPlan(func(u *kops.Update) error { shown = changes(u.Plan); return nil })}
		if err := c.DeleteGroup(t.Context(), name, "spare", o); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(shown, []string{"delete machines/spare"}) {
			t.Errorf("shown are %q", shown)
		}
	}
	b.expectResources("", "api", "control-plane-here", "nodes-here")
}

func TestDeleteGroupRefusesWhatWouldBreakTheCluster(t *testing.T) {
	b := newAppliedBench(t)
	expectTexts(t, b.DeleteGroup(t.Context(), name, "control-plane-here", kops.DeleteOptions{Apply: true}), "is the last group of the control plane", "kops delete cluster")
	expectTexts(t, b.DeleteGroup(t.Context(), name, "nodes-hree", kops.DeleteOptions{Apply: true}), `did you mean "nodes-here"?`)
	expectTexts(t, b.DeleteGroup(t.Context(), "b.example.com", "nodes-here", kops.DeleteOptions{Apply: true}), "b.example.com", "not found")
	b.world.Refuse(func(verb, _ string) error {
		if verb == "delete" {
			return fault.Wrap(fault.Denied, errors.New("you may not"), "ask somebody who may")
		}
		return nil
	})
	expectTexts(t, b.DeleteGroup(t.Context(), name, "nodes-here", kops.DeleteOptions{Apply: true}), "delete fake_machines/nodes-here."+name, "you may not")
	if c, err := b.Clusters().Get(t.Context(), name); err != nil || c.Group("nodes-here") == nil {
		t.Errorf("the group is gone from the store though its machines are not: %v", err)
	}
	b.expectResources("", "api", "control-plane-here", "nodes-here")
}

func TestDeleteCluster(t *testing.T) {
	b := newAppliedBench(t)
	var files []string
	o := kops.DeleteOptions{On: kops.OnPlan(func(u *kops.Update) error { files = u.Objects; return nil })}
	if err := b.DeleteCluster(t.Context(), name, o); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(files, "memory://state/"+name+"/pki/private/kubernetes-ca/keyset.yaml") || files[len(files)-1] != "memory://state/"+name+"/config" {
		t.Errorf("files are %q", files)
	}
	b.expectResources("", "api", "control-plane-here", "nodes-here")
	o.Apply = true
	if err := b.DeleteCluster(t.Context(), name, o); err != nil {
		t.Fatal(err)
	}
	b.expectResources()
	expectTexts(t, b.DeleteCluster(t.Context(), name, o), "not found")
	s, err := b.stores().Open(t.Context(), "memory://state")
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range s.List(t.Context(), "") {
		t.Errorf("%s is left in the state store, %v", i.Key, err)
	}
}

func TestFilesWrittenDuringADeletionAreDeleted(t *testing.T) {
	b := newAppliedBench(t)
	s, err := b.stores().Open(t.Context(), "memory://state")
	if err != nil {
		t.Fatal(err)
	}
	b.world.Refuse(func(verb, _ string) error {
		if verb != "delete" {
			return nil
		}
		_, err := s.Put(t.Context(), name+"/backups/etcd/main/control/etcd-cluster-created", []byte("{}"), store.PutOptions{})
		return err
	})
	if err := b.DeleteCluster(t.Context(), name, kops.DeleteOptions{Apply: true}); err != nil {
		t.Fatal(err)
	}
	for i, err := range s.List(t.Context(), "") {
		t.Errorf("%s is left in the state store, %v", i.Key, err)
	}
}

func TestADeletionThatBreaksKeepsTheClusterAndIsFinishedByTheNext(t *testing.T) {
	b := newAppliedBench(t)
	b.world.Refuse(func(verb, address string) error {
		if verb == "delete" && strings.HasPrefix(address, "fake_network/") {
			return fault.Wrap(fault.Permanent, errors.New("machine m-1 is still in it"), "remove it")
		}
		return nil
	})
	expectTexts(t, b.DeleteCluster(t.Context(), name, kops.DeleteOptions{Apply: true}), "fake_network/"+name, "machine m-1 is still in it")
	b.expectResources("")
	if _, err := b.Clusters().Get(t.Context(), name); err != nil {
		t.Errorf("the cluster left the store before its resources were gone: %v", err)
	}
	b.world.Refuse(nil)
	if err := b.DeleteCluster(t.Context(), name, kops.DeleteOptions{Apply: true}); err != nil {
		t.Fatal(err)
	}
	b.expectResources()
}

func TestASharedNetworkIsKept(t *testing.T) {
	b := newBench(t)
	id := b.world.AddNetwork("ours", "10.0.0.0/8")
	b.describe(func(o *newcluster.Options) { o.NetworkID = id })
	b.apply(kops.UpdateOptions{})
	b.expectResources("ours", "api", "control-plane-here", "nodes-here")
	if err := b.DeleteCluster(t.Context(), name, kops.DeleteOptions{Apply: true}); err != nil {
		t.Fatal(err)
	}
	b.expectResources("ours")
}

func TestDeletionOfTheObjectsAlone(t *testing.T) {
	b := newAppliedBench(t)
	if err := b.DeleteCluster(t.Context(), name, kops.DeleteOptions{Apply: true, Unregister: true}); err != nil {
		t.Fatal(err)
	}
	b.expectResources("", "api", "control-plane-here", "nodes-here")
	if _, err := b.Clusters().Get(t.Context(), name); !fault.Is(err, fault.Gone) {
		t.Errorf("error %v", err)
	}
}

func TestDeletionOfWhatIsOnThePlatformAlone(t *testing.T) {
	for _, o := range []kops.DeleteOptions{{}, {Cloud: fakecloud.Name}} {
		t.Run(cmp.Or(string(o.Cloud), "by default"), func(t *testing.T) {
			b := newAppliedBench(t)
			if err := b.DeleteCluster(t.Context(), name, kops.DeleteOptions{Apply: true, Unregister: true}); err != nil {
				t.Fatal(err)
			}
			o.External = true
			if err := b.DeleteCluster(t.Context(), name, o); err != nil {
				t.Fatal(err)
			}
			b.expectResources("", "api", "control-plane-here", "nodes-here")
			o.Apply = true
			if err := b.DeleteCluster(t.Context(), name, o); err != nil {
				t.Fatal(err)
			}
			b.expectResources()
		})
	}
	b := newAppliedBench(t)
	err := b.DeleteCluster(t.Context(), name, kops.DeleteOptions{Apply: true, External: true, Cloud: api.CloudGCE})
	expectTexts(t, err, `"gce" is not supported; use `+fakecloud.Name)
	b.expectResources("", "api", "control-plane-here", "nodes-here")
}

// With its objects, a deletion knows what is shared, and where everything is.
func TestAClusterOfTheStoreIsNotExternal(t *testing.T) {
	b := newAppliedBench(t)
	var refused *kops.Refused
	err := b.DeleteCluster(t.Context(), name, kops.DeleteOptions{External: true, Apply: true})
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), name+" is in the state store memory://state") ||
		!strings.Contains(fault.Remedy(err), "kops delete cluster "+name+", or") || !strings.Contains(fault.Remedy(err), "--unregister --yes") {
		t.Errorf("%v; %s", err, fault.Remedy(err))
	}
	b.expectResources("", "api", "control-plane-here", "nodes-here")
}

// absentStore is a store that does not exist.
type absentStore struct{ store.Store }

func (absentStore) List(_ context.Context, prefix string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		yield(store.Info{}, &store.MissingError{Err: fmt.Errorf("list absent://bucket/%s: NoSuchBucket", prefix)})
	}
}

// A store that does not exist contains nothing, so a cluster whose spec names a wrong one can
// be deleted; other commands report the field of the spec that names it.
func TestAClusterWhoseBucketIsMissingIsDeleted(t *testing.T) {
	b := newBench(t)
	b.cfg.Store.Backends = append(slices.Clone(b.cfg.Store.Backends), store.Backend{Schemes: []string{"absent"}, Open: func(context.Context, string, string) (store.Store, error) {
		return absentStore{store.NewMemory("absent")}, nil
	}})
	b.Client = b.client(func(*kops.Config) {})
	b.describe(func(*newcluster.Options) {})
	cl, err := b.Clusters().Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	cl.Spec.Spec.EtcdClusters[0].Backups = &api.EtcdBackupSpec{BackupStore: "absent://bucket/backups"}
	if _, err := b.Check(t.Context(), cl, factsOf(t, "{}")); err == nil || !strings.HasPrefix(err.Error(), "spec.etcdClusters[0].backups.backupStore: list absent://bucket/") {
		t.Errorf("a new cluster: %v", err)
	}
	b.set("", "spec.etcdClusters[0].backups.backupStore=absent://bucket/backups")
	if _, err := b.Update(t.Context(), name, kops.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), "spec.etcdClusters[0].backups.backupStore: list absent://bucket/") {
		t.Errorf("an update: %v", err)
	}
	b.set("", "spec.secretStore=absent://bucket/secrets")
	if err := b.DeleteCluster(t.Context(), name, kops.DeleteOptions{Apply: true}); err != nil {
		t.Error(err)
	}
	if names, err := b.Clusters().Names(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("left are %q, %v", names, err)
	}
}

// On platforms whose machines accept one key, a second one would make every update fail.
func TestASecondSSHKeyIsRefusedWhereMachinesTakeOne(t *testing.T) {
	b := newBench(t)
	p := inside[platform.Provider](b.world.Provider())
	p.Platform = *platformtest.Named("aws")
	b.Client = b.client(func(c *kops.Config) { c.Clouds = []kops.Provider{p} })
	b.describe(func(o *newcluster.Options) {
		o.CloudProvider, o.Zones, o.Image = string(api.CloudAWS), []string{"us-test-1a"}, "ami-1"
		o.NodeSizes, o.ControlPlaneSizes = []string{"t3.medium"}, []string{"t3.medium"}
	})
	one := []byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q jane")
	two := []byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl joe")
	for i := range 2 { // adding the same key again does not add a second one
		if _, _, err := b.Keys().Add(t.Context(), name, one); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, _, err := b.Keys().Add(t.Context(), name, two); !fault.Is(err, fault.Conflict) || fault.Remedy(err) != "delete it first: kops delete sshpublickey "+name {
		t.Errorf("%v; %s", err, fault.Remedy(err))
	}
	if keys, err := b.Keys().List(t.Context(), name); err != nil || len(keys) != 1 {
		t.Errorf("there are %d keys, %v", len(keys), err)
	}
}
