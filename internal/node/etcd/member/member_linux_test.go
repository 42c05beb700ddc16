package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/certs"
	"kops.local/kops/internal/node/etcd/etcdtest"
)

// fakeEtcd behaves like etcd as far as a Member can see: it creates its data, reports that,
// and runs until it is asked to stop.
const fakeEtcd = `#!/bin/sh
[ -e "$FAIL" ] && exit 1
mkdir -p "$ETCD_DATA_DIR/member/wal"
echo "$$ $ETCD_INITIAL_CLUSTER_STATE $ETCD_LISTEN_CLIENT_URLS" >> "$STARTS"
trap 'exit 0' TERM
while :; do sleep 0.02; done
`

// fakeRestore is an etcdutl that unpacks nothing, and records how it was called.
const fakeRestore = `#!/bin/sh
case "$*" in *--help) echo "--bump-revision uint"; exit;; esac
echo "$@" >> "$STARTS"
cat "$3" >> "$STARTS"
while [ $# -gt 1 ]; do [ "$1" = --data-dir ] && mkdir -p "$2/member/wal"; shift; done
`

type harness struct {
	t          *testing.T
	cfg        Config
	startsFile string // appended to at each start of etcd
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	dir := t.TempDir()
	h := &harness{t: t, startsFile: filepath.Join(dir, "starts")}
	for _, version := range []string{"3.5.35", "3.6.12"} {
		for name, text := range map[string]string{"etcd": fakeEtcd, "etcdutl": fakeRestore} {
			bin := filepath.Join(dir, "opt", "etcd-v"+version, "usr", "local", "bin")
			if err := os.MkdirAll(bin, 0o755); err != nil {
				t.Fatal(err)
			}
			text = strings.ReplaceAll(strings.ReplaceAll(text, "$STARTS", h.startsFile), "$FAIL", filepath.Join(dir, "fail"))
			if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.cfg = Config{
		Dir: filepath.Join(dir, "disk"), ID: "etcd-a", Address: "10.0.0.1", Listen: "0.0.0.0", Programs: Programs(filepath.Join(dir, "opt")),
		PeerURLs: []string{"http://etcd-a:2380"}, ClientURLs: []string{"http://etcd-a:4001"}, QuarantineURLs: []string{"http://etcd-a:3994"},
		Environment: []string{"PATH=" + os.Getenv("PATH")}, Output: &bytes.Buffer{}, Log: slog.New(slog.DiscardHandler), Grace: 5 * time.Second,
		Fetch: func(_ context.Context, backup, file string) (int64, error) {
			return 500, os.WriteFile(file, []byte("snapshot of "+backup+"\n"), 0o600)
		},
	}
	return h
}

func (h *harness) open() *Member {
	h.t.Helper()
	m, err := Open(h.cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = m.Close() }) // calling it twice is harmless
	return m
}

func (h *harness) run(m *Member, o etcd.Run) {
	h.t.Helper()
	if err := m.Run(h.t.Context(), o); err != nil {
		h.t.Fatal(err)
	}
}

// started waits for the n-th start and returns its line: process, state, URLs.
func (h *harness) started(n int) []string {
	h.t.Helper()
	var lines []string
	h.eventually(fmt.Sprintf("start %d", n), func() bool {
		text, _ := os.ReadFile(h.startsFile) // missing at first
		lines = strings.Split(strings.TrimSpace(string(text)), "\n")
		return len(text) > 0 && len(lines) >= n
	})
	return strings.Fields(lines[n-1])
}

func (h *harness) eventually(what string, ok func() bool) {
	h.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	h.t.Fatal("not in 10 s: " + what)
}

func isAlive(t *testing.T, pid string) bool {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	_, err = startOf(n)
	return err == nil
}

// founder returns an order to begin.
func founder() etcd.Run {
	return etcd.Run{Peer: "etcd-a", Token: "T", Seat: etcd.FounderSeat, Version: "3.6.12", Quarantined: true, Fresh: true,
		Initial: []etcd.Node{{Name: "etcd-a", URLs: []string{"http://etcd-a:2380"}}}}
}

func TestOrdersAreCarriedOutOnce(t *testing.T) {
	h := newHarness(t)
	m := h.open()
	h.run(m, founder())
	first := h.started(1)
	if first[1] != "new" || first[2] != "http://0.0.0.0:3994" {
		t.Errorf("etcd was started with %v", first)
	}
	h.run(m, founder())
	open := etcd.Run{Token: "T", Seat: etcd.FounderSeat, Version: "3.6.12"}
	h.run(m, open)
	second := h.started(2)
	if second[2] != "http://0.0.0.0:4001" || isAlive(t, first[0]) {
		t.Errorf("etcd was started with %v, and the first is alive: %v", second, isAlive(t, first[0]))
	}
	if err := m.Run(t.Context(), etcd.Run{Token: "U", Seat: "1", Version: "3.6.12"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("an order for data that are not here: %v", err)
	}
	if err := m.Run(t.Context(), etcd.Run{Token: "T", Seat: etcd.FounderSeat, Version: "3.7.0"}); err == nil {
		t.Error("a version that is not there was run")
	}
	if !isAlive(t, second[0]) {
		t.Error("a refused order ended etcd")
	}
	again := open
	again.Restart = true
	h.run(m, again)
	if third := h.started(3); third[2] != second[2] || isAlive(t, second[0]) {
		t.Errorf("etcd was started again with %v, and the second is alive: %v", third, isAlive(t, second[0]))
	}
	want := etcd.State{Token: "T", Seat: etcd.FounderSeat, Version: "3.6.12", Started: true}
	if d := cmp.Diff(want, m.State()); d != "" {
		t.Error(d)
	}
}

func TestAnotherSeatPutsTheDataAside(t *testing.T) {
	h := newHarness(t)
	m := h.open()
	h.run(m, founder())
	for i := range 4 {
		h.started(i + 1)
		h.run(m, etcd.Run{Token: "T", Seat: fmt.Sprint(i), Version: "3.6.12", Fresh: true})
	}
	if last := h.started(5); last[1] != "existing" {
		t.Errorf("etcd was started with %v", last)
	}
	trash, err := os.ReadDir(filepath.Join(h.cfg.Dir, "data-trashcan"))
	if err != nil || len(trash) != maxTrash {
		t.Errorf("the trash is %v, %v", trash, err)
	}
	if info, err := os.Stat(filepath.Join(h.cfg.Dir, "state")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the state is %v, %v", info, err)
	}
}

func TestEtcdIsRestartedWhenItExits(t *testing.T) {
	h := newHarness(t)
	m := h.open()
	h.run(m, founder())
	pid, _ := strconv.Atoi(h.started(1)[0])
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.started(2)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if isAlive(t, h.started(2)[0]) {
		t.Error("etcd outlives its manager")
	}
}

func TestStoppedStaysStopped(t *testing.T) {
	h := newHarness(t)
	m := h.open()
	h.run(m, founder())
	pid := h.started(1)[0]
	if err := m.Stop(t.Context()); err != nil || isAlive(t, pid) || !m.State().Stopped {
		t.Fatalf("after the stop: %v, alive %v, %v", err, isAlive(t, pid), m.State())
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = h.open()
	if err := m.Resume(t.Context()); err != nil || !m.State().Stopped || m.isRunning() {
		t.Errorf("a later manager: %v, %v", err, m.State())
	}
}

func TestALaterManagerContinues(t *testing.T) {
	h := newHarness(t)
	m := h.open()
	h.run(m, founder())
	h.started(1)
	if _, err := Open(h.cfg); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second manager of the folder: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = h.open()
	if m.isRunning() {
		t.Error("etcd runs before it is told to")
	}
	if err := m.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.started(2)
}

func TestALeftoverProcessIsStopped(t *testing.T) {
	h := newHarness(t)
	left := exec.Command("sleep", "1000")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- left.Wait() }()
	if err := os.MkdirAll(h.cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writePID(folder(h.cfg.Dir).pidFile(), left.Process.Pid); err != nil {
		t.Fatal(err)
	}
	h.open()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("it goes on")
		_ = left.Process.Kill() // so that the test leaves nothing running
	}
}

func TestANumberOfAnotherProcessIsLeftAlone(t *testing.T) {
	h := newHarness(t)
	if err := os.MkdirAll(h.cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%d another-boot/1\n", os.Getpid())
	if err := os.WriteFile(folder(h.cfg.Dir).pidFile(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h.open() // fails the test if this is wrong
}

func TestLostDataAreNotRecreated(t *testing.T) {
	h := newHarness(t)
	m := h.open()
	h.run(m, founder())
	pid := h.started(1)[0]
	time.Sleep(2 * watchPause) // so that they were noticed
	if err := os.RemoveAll(filepath.Join(h.cfg.Dir, "data")); err != nil {
		t.Fatal(err)
	}
	h.eventually("the seat is given up", func() bool { return m.State() == etcd.State{} })
	if isAlive(t, pid) {
		t.Error("etcd goes on without data")
	}
	h.run(m, founder())
	h.started(2)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(h.cfg.Dir, "data")); err != nil {
		t.Fatal(err)
	}
	m = h.open()
	if err := m.Resume(t.Context()); err != nil || m.isRunning() || m.State().Token != "" {
		t.Errorf("a later manager runs etcd: %v, %v", m.State(), err)
	}
}

func TestDataThatAreLostJustAfterAnotherStartAreMissed(t *testing.T) {
	h := newHarness(t)
	m := h.open()
	h.run(m, founder())
	h.started(1)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = h.open()
	if err := m.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.started(2)
	if err := os.RemoveAll(filepath.Join(h.cfg.Dir, "data")); err != nil {
		t.Fatal(err)
	}
	h.eventually("the seat is given up", func() bool { return m.State() == etcd.State{} })
}

func TestAnEtcdThatNeverBeganGivesUpItsSeat(t *testing.T) {
	h := newHarness(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(h.cfg.Dir), "fail"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := h.open()
	h.run(m, founder())
	h.eventually("the seat is given up", func() bool { return m.State() == etcd.State{} })
}

func TestABackupIsUnpacked(t *testing.T) {
	h := newHarness(t)
	m := h.open()
	o := founder()
	o.Backup, o.Served = "2026-08-01T10:15:00Z-000001", 4_000_000_700
	h.run(m, o)
	restore := strings.Join(h.started(1), " ")
	for _, want := range []string{"snapshot restore ", "--name etcd-a", "--initial-cluster-token T", "--initial-cluster etcd-a=http://etcd-a:2380",
		"--initial-advertise-peer-urls http://etcd-a:2380", "--bump-revision 5000000200 --mark-compacted"} {
		if !strings.Contains(restore, want) {
			t.Errorf("%q is not in %q", want, restore)
		}
	}
	if content := strings.Join(h.started(2), " "); content != "snapshot of "+o.Backup {
		t.Errorf("the snapshot is %q", content)
	}
	h.started(3)
	if left, _ := filepath.Glob(filepath.Join(h.cfg.Dir, "restore*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	m2 := o
	m2.Token, m2.Backup = "U", "broken"
	h.fails(m, m2, errors.New("no such backup"))
	if m.State() != (etcd.State{}) || m.isRunning() {
		t.Errorf("after a restore that failed: %v", m.State())
	}
}

// Programs that have read the old data have exited when new data begin, however often that
// is tried.
func TestReadersOfOldDataStopFirst(t *testing.T) {
	h := newHarness(t)
	calls := 0
	refuse := errors.New("it does not end")
	h.cfg.RestartReaders = func(context.Context) error {
		if calls++; calls == 2 {
			return refuse
		}
		return nil
	}
	m := h.open()
	o := founder()
	h.run(m, o)
	h.run(m, o)
	if calls != 0 {
		t.Fatal("the first cluster of all takes no other's place")
	}
	o.Token, o.Restored = "U", true
	h.run(m, o)
	h.run(m, o)
	if calls != 1 {
		t.Errorf("they were ended %d times for one cluster", calls)
	}
	o.Token = "V"
	if err := m.Run(t.Context(), o); !errors.Is(err, refuse) || m.isRunning() || m.State().Token != "" {
		t.Errorf("something goes on with what it has read, and etcd is %+v, %v", m.State(), err)
	}
	h.run(m, o)
	if calls != 3 || m.State().Token != "V" {
		t.Errorf("%d calls; %+v", calls, m.State())
	}
}

func (h *harness) fails(m *Member, o etcd.Run, err error) {
	h.t.Helper()
	m.cfg.Fetch = func(context.Context, string, string) (int64, error) { return 0, err }
	if got := m.Run(h.t.Context(), o); !errors.Is(got, err) {
		h.t.Errorf("the order ended with %v", got)
	}
}

func TestDataOfAnotherProgramAreRefused(t *testing.T) {
	h := newHarness(t)
	if err := os.MkdirAll(h.cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.cfg.Dir, "state"), []byte("\x0a\x05proto"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(h.cfg); err == nil || fault.Remedy(err) == "" {
		t.Errorf("opened with %v", err)
	}
}

func TestCertificatesAreIssuedAgainHalfway(t *testing.T) {
	h := newHarness(t)
	dir := t.TempDir()
	etcdtest.Authorities(t, dir)
	now := time.Now()
	var err error
	if h.cfg.Authorities, err = certs.Load(dir, func() time.Time { return now }); err != nil {
		t.Fatal(err)
	}
	h.cfg.PeerURLs, h.cfg.ClientURLs = []string{"https://etcd-a:2380"}, []string{"https://etcd-a:4001"}
	m := h.open()
	if err := m.RenewCertificates(); err != nil { // there is no cluster yet
		t.Fatal(err)
	}
	h.run(m, founder())
	renewed := func() []bool {
		t.Helper()
		var out []bool
		for _, file := range []string{"peers/me.crt", "clients/server.crt"} {
			path := filepath.Join(h.cfg.Dir, "pki/T", file)
			before, missing := os.ReadFile(path)
			err := m.RenewCertificates()
			after, gone := os.ReadFile(path)
			if err := errors.Join(missing, err, gone); err != nil {
				t.Fatal(err)
			}
			out = append(out, !bytes.Equal(before, after))
		}
		return out
	}
	if got := renewed(); got[0] || got[1] {
		t.Errorf("at first: %v", got)
	}
	now = now.Add(certs.DefaultValidity * 3 / 4)
	if got := renewed(); !got[0] || got[1] { // the second was issued together with the first
		t.Errorf("later: %v", got)
	}
}

func TestVersions(t *testing.T) {
	h := newHarness(t)
	p := h.cfg.Programs
	if got := p.Versions(); !slices.Equal(got, []string{"3.5.35", "3.6.12"}) {
		t.Errorf("versions %v", got)
	}
	if err := os.MkdirAll(filepath.Join(string(p), "etcd-v3.6.9"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(string(p), "etcd-v3.6.9", "etcd"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := p.restorer("3.6.9"); !strings.HasSuffix(got, "etcd-v3.6.12/usr/local/bin/etcdutl") {
		t.Errorf("3.6.9 is restored by %q", got)
	}
	if got := p.restorer("3.7.0"); got != "" {
		t.Errorf("3.7.0 is restored by %q", got)
	}
}

// A machine is replaced by one with other patch releases of etcd, and its disk stays.
func TestAnotherPatchGoesOnWithTheData(t *testing.T) {
	for _, x := range []struct{ was, there, want string }{
		{"3.6.8", "3.6.12", "3.6.12"},  // an older one
		{"3.6.14", "3.6.12", "3.6.12"}, // one that is not available yet, or no longer
		{"3.7.1", "3.6.12", "3.7.1"},   // whose data 3.6 cannot read
	} {
		h := newHarness(t)
		opt := string(h.cfg.Programs)
		if err := os.Rename(filepath.Join(opt, "etcd-v"+x.there), filepath.Join(opt, "etcd-v"+x.was)); err != nil {
			t.Fatal(err)
		}
		m := h.open()
		o := founder()
		o.Version = x.was
		h.run(m, o)
		h.started(1)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(opt, "etcd-v"+x.was), filepath.Join(opt, "etcd-v"+x.there)); err != nil {
			t.Fatal(err)
		}
		m = h.open()
		err := m.Resume(t.Context())
		if m.State().Version != x.want || (err == nil) != (x.want == x.there) {
			t.Errorf("data of %s go on with %s where %s is: %v", x.was, m.State().Version, x.there, err)
		}
		if x.want == x.there {
			h.started(2)
		}
	}
}

// A stopped etcd that is ordered to run as before runs with the available patch release.
func TestAnotherPatchGoesOnWithDataThatWereStopped(t *testing.T) {
	h := newHarness(t)
	opt := string(h.cfg.Programs)
	older := filepath.Join(opt, "etcd-v3.6.8")
	if err := os.Rename(filepath.Join(opt, "etcd-v3.6.12"), older); err != nil {
		t.Fatal(err)
	}
	m := h.open()
	o := founder()
	o.Version = "3.6.8"
	h.run(m, o)
	h.started(1)
	if err := errors.Join(m.Stop(t.Context()), m.Close(), os.Rename(older, filepath.Join(opt, "etcd-v3.6.12"))); err != nil {
		t.Fatal(err)
	}
	m = h.open()
	o.Fresh, o.Version = false, m.State().Version // as a leader that is not better informed
	h.run(m, o)
	h.started(2)
}
