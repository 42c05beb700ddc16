package kops_test

import (
	"context"
	"testing"
	"time"

	"kops.local/kops"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
)

// managed returns a client; the managers of etcd main work while it sleeps.
func (b *bench) managed(work func(etcd.Request) etcd.Answer) *kops.Client {
	return b.client(func(cfg *kops.Config) {
		cfg.World.Sleep = func(ctx context.Context, d time.Duration) error {
			b.now = b.now.Add(d)
			c, err := etcd.ReadControl(ctx, b.etcdStore("main"))
			if err != nil || c.Request == nil {
				return err
			}
			a := work(*c.Request)
			a.Request = c.Request.ID
			return etcd.WriteAnswer(ctx, b.etcdStore("main"), a)
		}
	})
}

func TestMaintenanceIsRequestedOfManagers(t *testing.T) {
	b := newAppliedBench(t)
	newest := b.takesBackup("main")
	rounds := 0
	c := b.managed(func(r etcd.Request) etcd.Answer {
		rounds++
		switch r.Task {
		case etcd.Defragment:
			all := []etcd.DefragmentResult{{Name: "etcd-b", Before: 30, After: 10}, {Name: "etcd-a", Before: 40, After: 10}}
			return etcd.Answer{Members: all[:min(rounds, 2)], Done: rounds == 3}
		case etcd.Drill:
			return etcd.Answer{Done: true, Drill: &etcd.DrillResult{Backup: r.Backup, Keys: 7, Same: 5, Changed: 2}}
		}
		return etcd.Answer{Done: true, Problem: "the database of etcd-a is full"}
	})
	var progress []int
	o := kops.EtcdCareOptions{Wait: time.Minute, On: func(e kops.Event) error {
		if e.Kind == kops.EventCare {
			progress = append(progress, len(e.Care.Defragmented))
		}
		return nil
	}}
	done, err := c.Etcd().Defragment(t.Context(), name, "main", o)
	if err != nil || len(done.Defragmented) != 2 || done.Defragmented[1] != (kops.EtcdDefragmented{Name: "etcd-a", Before: 40, After: 10}) || len(progress) != 3 {
		t.Errorf("%+v, %v, told %v", done, err, progress)
	}
	b.now = b.now.Add(time.Hour)
	drill, err := c.Etcd().Drill(t.Context(), name, "main", o)
	if err != nil || drill.Drill.Backup.Name != newest || drill.Drill.Keys != 7 || drill.Drill.Age < time.Hour {
		t.Errorf("%+v, %v", drill, err)
	}
	_, err = c.Etcd().DisarmAlarms(t.Context(), name, "main", o)
	expectTexts(t, err, "etcd main", "the database of etcd-a is full")
	if !fault.Is(err, fault.Permanent) {
		t.Errorf("the class is %v", fault.Of(err))
	}
}

func TestAValidationFailsWithAnAlarmOfEtcd(t *testing.T) {
	b := newAppliedBench(t)
	tell := func(members ...etcd.MemberStatus) *kops.Diagnosis {
		t.Helper()
		err := etcd.WriteStatus(t.Context(), b.etcdStore("main"), etcd.Status{At: b.now, Members: members})
		if err != nil {
			t.Fatal(err)
		}
		d, err := b.Diagnose(t.Context(), name, kops.DiagnoseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	of := func(d *kops.Diagnosis) (out []string) {
		for _, f := range d.Failures {
			if f.Kind == "Etcd" {
				out = append(out, f.Message+" | "+f.Remedy)
			}
		}
		return out
	}
	if got := of(tell(etcd.MemberStatus{Name: "etcd-a", Size: 100, Quota: 1000})); len(got) > 0 {
		t.Errorf("of a member that is well: %q", got)
	}
	for _, m := range []etcd.MemberStatus{{Name: "etcd-a", Size: 800 << 20, Quota: 1000 << 20}, {Name: "etcd-a", Quota: 1, Alarms: []string{etcd.NoSpace}}, {Name: "etcd-a", Quota: 1, Alarms: []string{etcd.Corrupt}}} {
		if got := of(tell(m)); len(got) != 1 {
			t.Errorf("of %+v: %q", m, got)
		}
	}
	b.now = b.now.Add(time.Hour) // old reports are not repeated
	d, err := b.Diagnose(t.Context(), name, kops.DiagnoseOptions{})
	if err != nil || len(of(d)) > 0 {
		t.Errorf("of an old status: %q, %v", of(d), err)
	}
}
