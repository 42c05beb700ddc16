package member

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/certs"
	"kops.local/kops/internal/node/etcd/etcdtest"
)

// kopsState returns the state of a disk that kOps' manager has used.
func kopsState() etcdtest.KopsState {
	node := func(id string) etcdtest.KopsNode {
		return etcdtest.KopsNode{Name: id, PeerURLs: []string{"http://" + id + ":2380"}, ClientURLs: []string{"http://" + id + ":4001"}, QuarantineURLs: []string{"http://" + id + ":3994"}}
	}
	return etcdtest.KopsState{New: true, Size: 3, Token: "tok-1_A", Nodes: []etcdtest.KopsNode{node("etcd-a"), node("etcd-b"), node("etcd-c")}, Version: "3.6.12"}
}

// writeKopsDisk writes a disk as kOps' manager leaves it: the state, and data of a member.
func (h *harness) writeKopsDisk(s etcdtest.KopsState, member uint64) {
	h.t.Helper()
	h.file("state", s.Encode())
	h.file("data/"+s.Token+"/member/wal/0000000000000000-0000000000000000.wal", walOf(member))
	h.file("data-trashcan/older/member/snap/db", []byte("older data"))
}

func (h *harness) file(name string, content []byte) {
	h.t.Helper()
	path := filepath.Join(h.cfg.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// walOf returns the start of a member's write-ahead log: a record of 4 bytes for
// the checksum, padded to 8, and the metadata.
func walOf(member uint64) []byte {
	metadata := append([]byte{1 << 3}, binary.AppendUvarint(nil, member)...)
	out := append(binary.LittleEndian.AppendUint64(nil, 4|uint64(0x84)<<56), 1<<3, 4, 2<<3, 0, 0, 0, 0, 0)
	record := append([]byte{1 << 3, 1, 2 << 3, 9, 3<<3 | 2, byte(len(metadata))}, metadata...)
	pad := -len(record) & 7
	out = binary.LittleEndian.AppendUint64(out, uint64(len(record))|uint64(0x80|pad)<<56)
	return append(append(out, record...), make([]byte, pad+64)...)
}

// disk returns every file of the disk except those that a manager may always create.
func (h *harness) disk() map[string]string {
	h.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(h.cfg.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" || d.Name() == "etcd.pid" {
			return err
		}
		text, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, h.cfg.Dir+"/")] = string(text)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// ignoreMore ignores the fields that kOps' manager ignores.
func ignoreMore() cmp.Option { return cmpopts.IgnoreFields(etcdtest.KopsState{}, "More") }

func TestADiskOfKopsIsTakenOver(t *testing.T) {
	for name, change := range map[string]func(*etcdtest.KopsState){
		"open":           func(*etcdtest.KopsState) {},
		"in quarantine":  func(s *etcdtest.KopsState) { s.Quarantined = true },
		"older patch":    func(s *etcdtest.KopsState) { s.Version = "3.6.3" },
		"younger patch":  func(s *etcdtest.KopsState) { s.Version = "3.6.99" },
		"joined later":   func(s *etcdtest.KopsState) { s.New = false },
		"TLS turned off": func(s *etcdtest.KopsState) { s.Nodes[0].TLS = true },
		"a later format": func(s *etcdtest.KopsState) { s.More = []byte{9 << 3, 1} },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			s := kopsState()
			change(&s)
			h.writeKopsDisk(s, 0x4fabcdef01234567)
			before := h.disk()
			m := h.open()
			want := etcd.State{Token: s.Token, Seat: "4fabcdef01234567", Version: "3.6.12", Quarantined: s.Quarantined, Started: true}
			if d := cmp.Diff(want, m.State()); d != "" {
				t.Error(d)
			}
			if err := m.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			port := map[bool]string{false: "4001", true: "3994"}[s.Quarantined]
			if got := h.started(1); got[1] != "existing" || got[2] != "http://0.0.0.0:"+port {
				t.Errorf("etcd was started with %v", got)
			}
			if d := cmp.Diff(before, h.disk()); d != "" {
				t.Errorf("the disk was changed, though nobody ordered anything: %s", d)
			}

			h.run(m, etcd.Run{Token: s.Token, Seat: want.Seat, Version: "3.6.12"})
			h.run(m, etcd.Run{Token: s.Token, Seat: want.Seat, Version: "3.5.35"})
			s.Quarantined, s.Version = false, "3.5.35"
			theirs, err := etcdtest.DecodeKopsState([]byte(h.disk()["state"]))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(s, theirs, ignoreMore()); d != "" || !bytes.HasPrefix(theirs.More, s.More) {
				t.Errorf("kOps' manager, given the disk back, would read: %s", d)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			want.Quarantined, want.Version = false, "3.5.35"
			if d := cmp.Diff(want, h.open().State()); d != "" {
				t.Errorf("a later manager: %s", d)
			}
		})
	}
}

// kOps' manager uses a disk, changes something, and the disk comes back.
func TestWhatKopsChangedCountsWhenADiskComesBack(t *testing.T) {
	h := newHarness(t)
	m := h.open()
	h.run(m, founder())
	h.started(1)
	h.run(m, etcd.Run{Token: "T", Seat: etcd.FounderSeat, Version: "3.6.12"})
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := etcdtest.DecodeKopsState([]byte(h.disk()["state"]))
	if err != nil {
		t.Fatal(err)
	}
	want := etcdtest.KopsState{New: true, Size: 1, Token: "T", Version: "3.6.12", Nodes: []etcdtest.KopsNode{
		{Name: "etcd-a", PeerURLs: h.cfg.PeerURLs, ClientURLs: h.cfg.ClientURLs, QuarantineURLs: h.cfg.QuarantineURLs}}}
	if d := cmp.Diff(want, s, ignoreMore()); d != "" {
		t.Errorf("kOps' manager would read: %s", d)
	}
	h.file("data/T/member/wal/0000000000000000-0000000000000000.wal", walOf(0xab))

	h.file("state", s.Encode()) // unchanged, with the field that is not theirs
	again := h.open()
	if got := again.State(); got.Seat != etcd.FounderSeat {
		t.Errorf("unchanged, it is the disk of %+v", got)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	s.Version, s.Quarantined = "3.5.35", true
	h.file("state", s.Encode())
	if d := cmp.Diff(etcd.State{Token: "T", Seat: "ab", Version: "3.5.35", Quarantined: true, Started: true}, h.open().State()); d != "" {
		t.Error(d)
	}
}

func TestADiskThatIsNotUnderstoodIsRefusedAndLeftAlone(t *testing.T) {
	good := kopsState()
	with := func(change func(*etcdtest.KopsState)) []byte {
		s := kopsState()
		change(&s)
		return s.Encode()
	}
	for name, x := range map[string]struct {
		state []byte
		wal   []byte
		peer  string // scheme of its own URLs
		want  string
	}{
		"no protocol buffer":     {state: []byte("hello"), want: "cannot be read"},
		"cut off":                {state: good.Encode()[:40], want: "cannot be read"},
		"of another message":     {state: []byte("\x0a\x05proto"), want: "cannot be read"},
		"of unknown fields only": {state: []byte{9 << 3, 1}, want: "cannot be read"},
		"a token that is a path": {state: with(func(s *etcdtest.KopsState) { s.Token = "../.." }), want: `the token "../.."`},
		"no version":             {state: with(func(s *etcdtest.KopsState) { s.Version = "" }), want: "names no version"},
		"damaged JSON":           {state: []byte(`{"token":"tok-1_A",`), want: "cannot be read"},
		"emptied":                {state: []byte{}, want: "does not mention it"},
		"missing":                {want: "does not mention it"},
		"of another member":      {state: with(func(s *etcdtest.KopsState) { s.Nodes = s.Nodes[1:] }), want: `knows ["etcd-b" "etcd-c"] but not etcd-a`},
		"with TLS, and ours not": {state: with(func(s *etcdtest.KopsState) {
			s.Nodes[0].TLS, s.Nodes[0].PeerURLs = true, []string{"https://etcd-a:2380"}
		}), want: "each other with https"},
		"without TLS, and ours with": {state: good.Encode(), peer: "https", want: "each other with http,"},
		"a log that is none":         {state: good.Encode(), wal: bytes.Repeat([]byte("x"), 4096), want: "whose data are in"},
		"an empty log":               {state: good.Encode(), wal: []byte{}, want: "whose data are in"},
		"a log that is cut off":      {state: good.Encode(), wal: walOf(7)[:20], want: "whose data are in"},
		"a log without a metadata":   {state: good.Encode(), wal: bytes.Repeat(walOf(7)[:16], 3), want: "does not begin"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			if x.peer != "" {
				h.cfg.PeerURLs, h.cfg.Authorities = []string{x.peer + "://etcd-a:2380"}, &certs.Authorities{}
			}
			h.writeKopsDisk(good, 7)
			if x.state == nil {
				if err := os.Remove(filepath.Join(h.cfg.Dir, "state")); err != nil {
					t.Fatal(err)
				}
			} else {
				h.file("state", x.state)
			}
			if x.wal != nil {
				h.file("data/"+good.Token+"/member/wal/0000000000000000-0000000000000000.wal", x.wal)
			}
			before := h.disk()
			for range 2 { // a pod is restarted repeatedly
				_, err := Open(h.cfg)
				if !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), x.want) || fault.Remedy(err) == "" {
					t.Fatalf("opened with %v", err)
				}
			}
			if d := cmp.Diff(before, h.disk()); d != "" {
				t.Error(d)
			}
		})
	}
}

// The seat of a disk that has kOps' state but no data is free for other peers.
func TestADiskOfKopsWithoutDataIsEmpty(t *testing.T) {
	h := newHarness(t)
	h.file("state", kopsState().Encode())
	before := h.disk()
	m := h.open()
	if err := m.Resume(t.Context()); err != nil || m.State() != (etcd.State{}) || m.isRunning() {
		t.Errorf("it is %+v, %v", m.State(), err)
	}
	if d := cmp.Diff(before, h.disk()); d != "" {
		t.Error(d)
	}
	h.run(m, etcd.Run{Token: kopsState().Token, Seat: "9", Version: "3.6.12", Fresh: true})
	if got := h.started(1); got[1] != "existing" {
		t.Errorf("etcd was started with %v", got)
	}
}

// The clock of a machine may have been ahead when older data were written.
func TestTheLastDataPutAsideAreKept(t *testing.T) {
	h := newHarness(t)
	h.writeKopsDisk(kopsState(), 7)
	for _, older := range []string{"older", "oldest", "X"} {
		h.file("data-trashcan/"+older+"/member/snap/db", []byte("older data"))
		if err := os.Chtimes(filepath.Join(h.cfg.Dir, "data-trashcan", older), time.Time{}, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	m := h.open()
	h.run(m, etcd.Run{Token: "tok-1_A", Seat: "9", Version: "3.6.12", Fresh: true})
	h.started(1)
	if got := h.disk()["data-trashcan/tok-1_A-7/member/wal/0000000000000000-0000000000000000.wal"]; got != string(walOf(7)) {
		t.Errorf("of the data that were put aside, there is %q", got)
	}
	if trash, err := os.ReadDir(filepath.Join(h.cfg.Dir, "data-trashcan")); err != nil || len(trash) != maxTrash {
		t.Errorf("the trash is %v, %v", trash, err)
	}
}

// The state that earlier versions of this program wrote is read, and from then on is kept in kOps' format.
func TestAnAccountAloneIsRead(t *testing.T) {
	h := newHarness(t)
	h.file("state", []byte(`{"token":"T","seat":"founder","etcdVersion":"3.6.12","started":true,"initial":[{"name":"etcd-a","urls":["http://etcd-a:2380"]}]}`))
	h.file("data/T/member/wal/0000000000000000-0000000000000000.wal", walOf(7))
	if got := h.open().State(); got != (etcd.State{Token: "T", Seat: etcd.FounderSeat, Version: "3.6.12", Started: true}) {
		t.Errorf("it is %+v", got)
	}
	if s, err := etcdtest.DecodeKopsState([]byte(h.disk()["state"])); err != nil || s.Token != "T" || s.Version != "3.6.12" || len(s.Nodes) != 1 {
		t.Errorf("the state is %+v, %v", s, err)
	}
}

func FuzzState(f *testing.F) {
	f.Add(kopsState().Encode())
	f.Add([]byte(`{"token":"T"}`))
	own, err := storedState{State: etcd.State{Token: "T", Seat: "1", Version: "3.6.12"}}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own)
	f.Fuzz(func(t *testing.T, text []byte) {
		k, theirs, err := decode(text)
		if err != nil || k.Token == "" {
			return
		}
		if theirs != nil && !isName(k.Token) {
			t.Fatalf("the token %q", k.Token)
		}
		again, err := k.encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, theirs, err := decode(again); err != nil || theirs != nil || got.State != k.State {
			t.Errorf("%+v is read as %+v, %v, %v", k, got, theirs, err)
		}
	})
}
