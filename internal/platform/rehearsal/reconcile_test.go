package rehearsal_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"kops.local/kops/internal/platform/rehearsal"
	"kops.local/kops/internal/test/stagetest"
)

// emulator is a platform in memory: what it wants, and what it was told.
type emulator struct {
	*testing.T
	wanted rehearsal.Wanted
	host   *stagetest.Host
	room   *rehearsal.Reconciler

	mu    sync.Mutex
	boots map[string]int // by the machine and its ID: how often it was launched
	ended []string
	died  []string
}

func newEmulator(t *testing.T) *emulator {
	h := stagetest.New()
	return &emulator{T: t, host: h, room: rehearsal.NewReconciler(h.Stage()), boots: map[string]int{}}
}

// machine returns a machine with an address of 10.0.0.0/16, or of the network in which it is.
func (e *emulator) machine(name, id, address string) rehearsal.WantedMachine {
	at := netip.MustParseAddr(address)
	network := netip.PrefixFrom(at, 16).Masked()
	return rehearsal.WantedMachine{Name: name, ID: id, Address: at, Network: network, Hosts: []string{name + ".internal"},
		Boot: func(context.Context) (rehearsal.Boot, error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.boots[name+id]++
			return rehearsal.Boot{UserData: "#!" + name + id, MemoryMiB: 512, Shows: map[string]string{"/dev/x": "/x"}, End: func() error {
				e.mu.Lock()
				defer e.mu.Unlock()
				e.ended = append(e.ended, name+id)
				return nil
			}}, nil
		},
		Died: func(context.Context) error {
			e.died = append(e.died, name+id)
			return nil
		},
	}
}

// pass reconciles once, and checks the error; "" is success.
func (e *emulator) pass(want string) {
	e.Helper()
	got := ""
	if err := e.room.Reconcile(e.Context(), e.wanted); err != nil {
		got = err.Error()
	}
	if got != want {
		e.Fatalf("got the error %q, want %q", got, want)
	}
}

func (e *emulator) machines() []string { return slices.Sorted(maps.Keys(e.host.Machines)) }

func TestMachinesAreLaunchedAndEnded(t *testing.T) {
	e := newEmulator(t)
	e.wanted.Machines = []rehearsal.WantedMachine{e.machine("a", "", "10.0.0.5"), e.machine("b", "", "10.1.0.5")}
	e.wanted.Machines[0].Own = []netip.Prefix{netip.MustParsePrefix("10.0.0.5/32")}
	e.wanted.Routes = map[string]string{"100.96.0.0/24": "a", "100.96.1.0/24": "nobody"}
	e.pass("")
	a := e.host.Machines["a"]
	if a.Address.String() != "10.0.0.5/16" || a.Gateway.String() != "10.0.0.1" || a.UserData != "#!a" || a.MemoryMiB != 512 || a.Shows["/dev/x"] != "/x" {
		t.Errorf("the machine is %+v", a)
	}
	if got := fmt.Sprint(e.machines(), e.host.Gateways, e.host.Ranges, e.host.Checked); got != "[a b] [10.0.0.1/16 10.1.0.1/16] map[100.96.0.0/24:10.0.0.5] map[10.0.0.5:[10.0.0.5/32]]" {
		t.Errorf("the host has %s", got)
	}
	e.wanted.Machines = e.wanted.Machines[1:]
	e.pass("")
	e.pass("")
	if got := fmt.Sprint(e.machines(), e.host.Gateways, e.host.Ranges, e.host.Checked, e.boots, e.ended); got != "[b] [10.1.0.1/16] map[] map[] map[a:1 b:1] [a]" {
		t.Errorf("then there is %s", got)
	}
	if err := e.room.Close(); err != nil || !slices.Equal(e.ended, []string{"a", "b"}) {
		t.Errorf("in the end %v, %v", e.ended, err)
	}
}

// TestAMachineThatDies checks that the emulator is told until it no longer wants the machine, and
// that one with the same name and address replaces it.
func TestAMachineThatDies(t *testing.T) {
	e := newEmulator(t)
	e.wanted.Machines = []rehearsal.WantedMachine{e.machine("a", "1", "10.0.0.5")}
	e.wanted.Disks = []rehearsal.Disk{{Name: "d", GiB: 1, Machine: "a", Paths: []string{"/dev/d"}}}
	e.pass("")
	e.host.Dead["a"] = true
	e.pass("")
	e.pass("")
	if !slices.Equal(e.died, []string{"a1", "a1"}) || len(e.ended) > 0 {
		t.Errorf("told is %v; ended are %v", e.died, e.ended)
	}
	e.wanted.Machines[0] = e.machine("a", "2", "10.0.0.5")
	e.pass("")
	if got := e.host.Machines["a"].UserData; got != "#!a2" || !slices.Equal(e.ended, []string{"a1"}) || len(e.died) != 2 || e.host.Disks["d"].Machine != "a" {
		t.Errorf("the machine is %s; ended are %v, told is %v, the disk is %+v", got, e.ended, e.died, e.host.Disks["d"])
	}
}

// TestAnAddressIsReused checks that a machine is launched only after the one whose address it gets
// has ended.
func TestAnAddressIsReused(t *testing.T) {
	e := newEmulator(t)
	e.wanted.Machines = []rehearsal.WantedMachine{e.machine("a", "", "10.0.0.5")}
	e.pass("")
	e.wanted.Machines = []rehearsal.WantedMachine{e.machine("b", "", "10.0.0.5")}
	e.pass("")
	if !slices.Equal(e.machines(), []string{"b"}) {
		t.Errorf("there are %v", e.machines())
	}
}

// TestAMachineThatFails checks that what was made for it is removed, that it is tried again, and
// that other machines do not wait for it.
func TestAMachineThatFails(t *testing.T) {
	e := newEmulator(t)
	e.wanted.Machines = []rehearsal.WantedMachine{e.machine("a", "", "10.0.0.5"), e.machine("b", "", "10.0.0.6")}
	e.wanted.Disks = []rehearsal.Disk{{Name: "d", Machine: "a"}}
	e.host.Broken["a"] = true
	e.pass("start the machine a: the machine a does not start")
	if !slices.Equal(e.machines(), []string{"b"}) || !slices.Equal(e.ended, []string{"a"}) || len(e.host.Disks) > 0 {
		t.Errorf("there are %v, %v; ended are %v", e.machines(), e.host.Disks, e.ended)
	}
	e.host.Broken["a"] = false
	e.pass("")
	e.host.Broken["a"] = true
	e.wanted.Machines = e.wanted.Machines[1:]
	e.pass("end the machine a: the machine a does not end")
	if !slices.Equal(e.ended, []string{"a"}) {
		t.Errorf("ended are %v", e.ended)
	}
	e.wanted.Machines[0].Boot = func(context.Context) (rehearsal.Boot, error) {
		return rehearsal.Boot{}, errors.New("no user data")
	}
	delete(e.host.Machines, "b") // it disappears
	e.host.Broken["a"] = false
	e.pass("start the machine b: no user data")
	if !slices.Equal(e.ended, []string{"a", "b", "a"}) && !slices.Equal(e.ended, []string{"a", "a", "b"}) {
		t.Errorf("ended are %v", e.ended)
	}
}

// TestAPlayIsRestarted checks that machines of an earlier play, whose data are lost, are replaced.
func TestAPlayIsRestarted(t *testing.T) {
	e := newEmulator(t)
	e.wanted.Machines = []rehearsal.WantedMachine{e.machine("a", "", "10.0.0.5")}
	e.wanted.Disks = []rehearsal.Disk{{Name: "d", Machine: "a"}}
	e.pass("")
	e.room = rehearsal.NewReconciler(e.host.Stage())
	e.pass("")
	if e.boots["a"] != 2 || e.host.Disks["d"].Machine != "a" {
		t.Errorf("launched %v; the disk is %+v", e.boots, e.host.Disks["d"])
	}
	e.pass("")
	if e.boots["a"] != 2 {
		t.Errorf("launched again: %v", e.boots)
	}
}

// TestDisks moves a disk from machine to machine, which must have released it.
func TestDisks(t *testing.T) {
	e := newEmulator(t)
	e.wanted.Machines = []rehearsal.WantedMachine{e.machine("a", "", "10.0.0.5"), e.machine("b", "", "10.0.0.6")}
	attach := func(machine, want, at string) {
		t.Helper()
		e.wanted.Disks = []rehearsal.Disk{{Name: "d", GiB: 8, Machine: machine, Paths: []string{"/dev/d"}}}
		e.pass(want)
		if d, ok := e.host.Disks["d"]; ok != (at != "none") || ok && d.Machine != at {
			t.Errorf("the disk is attached to %q, want %q", d.Machine, at)
		}
	}
	attach("", "", "none") // it is made when it is first attached
	attach("a", "", "a")
	attach("a", "", "a")
	e.host.Broken["d"] = true
	attach("b", "the disk d is in use", "a")
	e.host.Broken["d"] = false
	attach("b", "", "b")
	attach("nobody", "", "")
	attach("a", "", "a")
	e.wanted.Disks = append(e.wanted.Disks, rehearsal.Disk{Name: "d", Machine: "b"})
	e.pass("attach the disk d to the machine b: it is attached to a")
	if e.host.Disks["d"].Machine != "a" {
		t.Errorf("a disk attached twice is %+v", e.host.Disks["d"])
	}
	e.wanted.Machines = e.wanted.Machines[1:]
	e.wanted.Disks = e.wanted.Disks[:1]
	e.pass("")
	if d, ok := e.host.Disks["d"]; !ok || d.Machine != "" || d.GiB != 8 {
		t.Errorf("after its machine the disk is %+v", d)
	}
	attach("b", "", "b")
	e.wanted.Disks = nil
	e.host.Broken["d"] = true
	e.pass("the disk d is in use")
	attach("b", "", "b")
	e.host.Broken["d"] = false
	attach("", "", "")
	e.wanted.Disks = nil
	e.host.Broken["d"] = true
	e.pass("the disk d is attached to the machine ")
	if len(e.host.Disks) != 1 {
		t.Error("a disk in use is discarded")
	}
	e.host.Broken["d"] = false
	e.pass("")
	if len(e.host.Disks) != 0 {
		t.Errorf("left are %v", e.host.Disks)
	}
}

// TestBalancers checks their addresses, which do not change, and their backends.
func TestBalancers(t *testing.T) {
	e := newEmulator(t)
	small := []netip.Prefix{netip.MustParsePrefix("fd00::/64"), netip.MustParsePrefix("10.0.0.0/29"), netip.MustParsePrefix("10.0.9.0/24")}
	one := func(name string) rehearsal.WantedBalancer {
		return rehearsal.WantedBalancer{Name: name, Subnets: small, Hosts: []string{name + ".Balancers."}, Fronts: []rehearsal.WantedFront{{Port: 443, Target: 6443, Machines: []string{"a", "nobody"}}, {Port: 80, Target: 80}}}
	}
	fixed := one("fixed")
	fixed.Address = netip.MustParseAddr("10.0.0.6")
	e.wanted.Machines = []rehearsal.WantedMachine{e.machine("a", "", "10.0.0.5"), e.machine("b", "", "10.0.0.3")}
	e.wanted.Balancers = []rehearsal.WantedBalancer{one("x"), fixed, one("y")}
	e.pass("")
	at := func() map[string]string {
		out := map[string]string{}
		for _, b := range e.host.Balancers {
			out[b.Name] = b.Address.String()
		}
		return out
	}
	if got := fmt.Sprint(at()); got != "map[fixed:10.0.0.6 x:10.0.0.4 y:10.0.0.2]" {
		t.Errorf("the balancers are at %s", got)
	}
	if got := fmt.Sprint(e.host.Balancers[0].Fronts); got != "[{443 6443 [10.0.0.5]} {80 80 []}]" {
		t.Errorf("their ports are %s", got)
	}
	if lines, _ := e.room.Lookup("y.balancers", "A"); fmt.Sprint(lines) != "[y.balancers. 60 IN A 10.0.0.2]" {
		t.Errorf("the name of one is %v", lines)
	}
	none := rehearsal.WantedBalancer{Name: "none", Hosts: []string{"none"}}
	e.wanted.Balancers = []rehearsal.WantedBalancer{one("z"), one("y"), none}
	e.pass("")
	if got := fmt.Sprint(at()); got != "map[y:10.0.0.2 z:10.0.0.6]" {
		t.Errorf("then the balancers are at %s", got)
	}
	if _, known := e.room.Lookup("none", "A"); known {
		t.Error("a balancer without an address has a name")
	}
}

func TestNamesAndCallers(t *testing.T) {
	e := newEmulator(t)
	e.wanted.Machines = []rehearsal.WantedMachine{e.machine("a", "", "10.0.0.5")}
	e.wanted.Machines[0].Public = netip.MustParseAddr("203.0.113.5")
	e.wanted.Hosts = map[string]netip.Addr{"metadata": netip.MustParseAddr("169.254.169.254")}
	e.wanted.Zones = []rehearsal.Zone{{Name: "example.com", Records: []rehearsal.Record{{Name: "api.example.com", Type: "A", TTL: 30, Values: []string{"203.0.113.5"}}}}}
	e.pass("")
	for name, want := range map[string]string{"a.internal": "10.0.0.5", "metadata": "169.254.169.254", "api.example.com": "10.0.0.5"} {
		if lines, known := e.room.Lookup(name, "A"); !known || len(lines) != 1 || !strings.HasSuffix(lines[0], " IN A "+want) {
			t.Errorf("%s is %v, %v", name, lines, known)
		}
	}
	ask := func(from string) (string, int) {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.RemoteAddr = from
		name, ok := e.room.Caller(w, r)
		if ok != (w.Code == http.StatusOK) {
			t.Errorf("%s: %v, and the code %d", from, ok, w.Code)
		}
		return name, w.Code
	}
	if name, _ := ask("[::ffff:10.0.0.5]:40000"); name != "a" {
		t.Errorf("the caller is %q", name)
	}
	for _, from := range []string{"10.0.0.6:40000", "nonsense"} {
		if name, code := ask(from); name != "" || code != http.StatusNotFound {
			t.Errorf("the caller at %s is %q, %d", from, name, code)
		}
	}
	e.wanted = rehearsal.Wanted{}
	e.pass("")
	if _, known := e.room.Lookup("a.internal", "A"); known {
		t.Error("a machine that ended has a name")
	}
}
