package volume

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
)

// disks are the disks of a cloud. Its machines have the address at-NAME.
type disks struct {
	all      []LabelledDisk
	attached []string
	quicker  bool // another machine attaches first
}

func (d *disks) List(context.Context) ([]LabelledDisk, error) { return slices.Clone(d.all), nil }

func (d *disks) Locate(_ context.Context, attached []LabelledDisk) (map[string][]string, error) {
	out := map[string][]string{}
	for _, x := range attached {
		if x.Machine == "" {
			return nil, errors.New("asked about a disk without a machine")
		}
		if x.Machine != "gone" {
			out[x.ID] = []string{"at-" + x.Machine, "also-at-" + x.Machine}
		}
	}
	return out, nil
}

func (d *disks) Attach(_ context.Context, id string) error {
	if d.quicker {
		return fault.New(fault.Conflict, "another machine has %s", id)
	}
	d.attached = append(d.attached, id)
	for i := range d.all {
		if d.all[i].ID == id {
			d.all[i].Machine = "self"
		}
	}
	return nil
}

// source returns the disks as a machine at the place here sees them.
func (d *disks) source(here Place) (Source, *Labelled) {
	r := Request{Cluster: "etcd", Tags: []string{"cluster=c"}, NameTag: "member", Port: "3996", Mounter: mounter{}}
	connect := func(context.Context) (Disks, Place, error) { return d, here, nil }
	return FromLabels(r, connect), &Labelled{Request: r, Connect: connect}
}

func TestAMachineTakesADiskOfItsLocation(t *testing.T) {
	d := &disks{all: []LabelledDisk{
		{ID: "1", Name: "a/a,b,c", Place: Place{"other", "here"}, Devices: []string{"/dev/a"}},
		{ID: "2", Name: "b/a,b,c", Place: Place{"", "there"}, IsAvailable: true},
		{ID: "3", Name: "c/a,b,c", Place: Place{"", "here"}},
		{ID: "4", Name: "d/a,b,c", Place: Place{"", "here"}, IsAvailable: true, Devices: []string{"/dev/d"}, Folder: "cloud-4"},
		{ID: "5", Name: "e/a,b,c", Place: Place{"self", "here"}, IsLeaving: true},
		{ID: "6", Name: "f/a,b,c", Place: Place{"self", "there"}}, // another machine with this one's name
		{ID: "7", Peer: "vol-7", Name: "g", Place: Place{"gone", "there"}},
	}}
	source, l := d.source(Place{"self", "here"})
	if _, err := source.Disk(t.Context()); !fault.Is(err, fault.NotYet) || !slices.Equal(d.attached, []string{"4"}) {
		t.Errorf("%v, attached are %v", err, d.attached)
	}
	got, err := source.Disk(t.Context())
	if err != nil || got != (Disk{Dir: "/mnt/4", Peer: "etcd-d", Address: "at-self"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	all, err := l.Volumes(t.Context())
	if err != nil || len(all) != 7 || all[3].Folder != "cloud-4" || !slices.Equal(all[3].Devices, []string{"/dev/d"}) || all[6].Peer != "vol-7" {
		t.Errorf("the volumes are %+v, %v", all, err)
	}
	found, err := source.Discover(t.Context())
	var at []string
	for _, s := range found {
		at = append(at, s.ID+" "+s.Endpoint)
	}
	want := "etcd-a at-other:3996, etcd-a also-at-other:3996, etcd-d at-self:3996, etcd-d also-at-self:3996, etcd-e at-self:3996, etcd-e also-at-self:3996, etcd-f at-self:3996, etcd-f also-at-self:3996"
	if err != nil || strings.Join(at, ", ") != want {
		t.Errorf("the managers are at %q, %v", at, err)
	}
}

func TestADiskIsNotTakenFromAnotherMachine(t *testing.T) {
	free := LabelledDisk{ID: "1", Name: "a", Place: Place{"", "here"}, IsAvailable: true}
	d := &disks{all: []LabelledDisk{free}, quicker: true}
	source, _ := d.source(Place{"self", "here"})
	if _, err := source.Disk(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("while another machine attaches it: %v", err)
	}
	d.quicker, d.all[0].Machine = false, "other"
	if _, err := source.Disk(t.Context()); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "1 of etcd-a is attached to other") || d.attached != nil {
		t.Errorf("once another machine has it: %v, attached are %v", err, d.attached)
	}
	d.all[0] = LabelledDisk{ID: "1", Place: Place{"self", "here"}}
	if _, err := source.Disk(t.Context()); !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), `no tag "member"`) {
		t.Errorf("a disk of no member: %v", err)
	}
}

// TestNoSecondDiskIsTakenMeanwhile is about clouds whose lists show neither at once nor always that a disk is
// being attached.
func TestNoSecondDiskIsTakenMeanwhile(t *testing.T) {
	free := LabelledDisk{ID: "1", Name: "a", Place: Place{"", "here"}, IsAvailable: true}
	second := free
	second.ID, second.Name = "2", "b"
	var d *disks
	var source Source
	start := func() {
		d = &disks{all: []LabelledDisk{free, second}}
		source, _ = d.source(Place{"self", "here"})
	}
	take := func(what string, class fault.Class, want ...string) {
		t.Helper()
		if got, err := source.Disk(t.Context()); fault.Of(err) != class || !slices.Equal(d.attached, want) {
			t.Errorf("%s: %+v, %v, attached are %q", what, got, err, d.attached)
		}
	}
	start()
	take("both are free", fault.NotYet, "1")
	d.all[0].Machine, d.all[0].IsAvailable = "", false
	take("the first one is reserved", fault.NotYet, "1")
	d.all[0].IsAvailable = true
	take("it is free again", fault.NotYet, "1", "1")
	take("it is attached", "", "1", "1")
	d.all[0].Machine = "other"
	take("another machine has it", fault.NotYet, "1", "1", "2")
	start()
	take("both are free", fault.NotYet, "1")
	d.all[0].Machine, d.all[0].IsAvailable = "", false
	for range maxLooks {
		take("the first one is reserved", fault.NotYet, "1")
	}
	take("it is broken", fault.NotYet, "1", "2")
	start()
	take("both are free", fault.NotYet, "1")
	d.all = d.all[1:]
	take("the first one is gone", fault.NotYet, "1", "2")
}

func TestAMachineIdentifiesItselfOnce(t *testing.T) {
	calls := 0
	l := &Labelled{Request: Request{Tags: []string{"a"}, NameTag: "a"}, Connect: func(context.Context) (Disks, Place, error) {
		if calls++; calls == 1 {
			return nil, Place{}, fault.New(fault.NotYet, "later")
		}
		return &disks{}, Place{}, nil
	}}
	for n := range 3 {
		if _, err := l.Volumes(t.Context()); (n == 0) != fault.Is(err, fault.NotYet) || n > 0 && err != nil {
			t.Errorf("the %dth time: %v", n+1, err)
		}
	}
	if calls != 2 {
		t.Errorf("asked %d times", calls)
	}
	for _, r := range []Request{{NameTag: "a"}, {Tags: []string{"a"}}} {
		l.Request = r
		if _, err := l.Volumes(t.Context()); !fault.Is(err, fault.Permanent) || calls != 2 {
			t.Errorf("every disk of the account is asked for: %v", err)
		}
	}
}
