package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/site"
	"kops.local/kops/internal/platform/rehearsal"
)

// Arguments that make this program another: one that fetches a URL, and one that opens a
// stage with a machine and a disk, and does not close it.
const (
	fetch = "fetch-a-url"
	begin = "begin-a-stage"
)

func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == fetch:
		err = fetchURL(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == begin:
		err = beginStage(os.Args[2])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func fetchURL(url string) error {
	r, err := http.Get(url) //nolint:gosec // a test
	if err != nil {
		return err
	}
	defer r.Body.Close()
	_, err = io.Copy(os.Stdout, r.Body)
	return err
}

func beginStage(dir string) error {
	o, err := options(dir)
	if err != nil {
		return err
	}
	s, err := Open(context.Background(), o)
	if err != nil {
		return err
	}
	if err := s.network.Addresses(addresses()); err != nil {
		return err
	}
	c := s.Contract()
	if err := c.Machines.Launch(context.Background(), rehearsal.Machine{Name: "left", Address: netip.MustParsePrefix("10.199.65.20/24"), Gateway: netip.MustParseAddr("10.199.65.1"), UserData: "#!/bin/sh\n"}); err != nil {
		return err
	}
	if err := c.Disks.Plug(context.Background(), rehearsal.Disk{Name: "left", GiB: 1, Machine: "left", Paths: []string{"/dev/left"}}); err != nil {
		return err
	}
	fmt.Println("begun")
	_, err = io.Copy(io.Discard, os.Stdin) // until it is killed
	return err
}

// addresses returns the gateways of two networks, whose machines reach each other.
func addresses() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.199.64.1/24"), netip.MustParsePrefix("10.199.65.1/24")}
}

// options returns the options of a stage in dir. Stages with the same parent folder share its run folder.
func options(dir string) (Options, error) {
	cache, err := os.UserCacheDir()
	return Options{Root: dir, Run: filepath.Join(filepath.Dir(dir), "run"), Cache: filepath.Join(cache, "kops", "local"),
		Log: slog.New(slog.DiscardHandler), Output: os.Stderr, Now: time.Now}, err
}

const userData = `#!/bin/sh
set -eu
hostname
curl -fsS --max-time 10 https://api.service.test/hello
curl -fsS --max-time 10 https://files.publisher.test/dl/thing
curl -fsS --max-time 10 http://169.254.169.254/latest/
getent hosts own.zone.test
! curl -sS --max-time 1 http://198.18.0.1:3989/ 2>/dev/null
! getent hosts nobody.test
test -d /run/udev && test -d /etc/udev
echo "the script has ended well"
exec socat TCP-LISTEN:8443,fork,reuseaddr SYSTEM:'hostname' 2>/dev/null &
`

// scene is a stage with a play of three names.
type scene struct {
	*testing.T
	*Stage
	contract rehearsal.Stage
}

func (s *scene) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// wait calls f until it returns nil.
func (s *scene) wait(what string, f func() error) {
	s.Helper()
	begun := time.Now()
	for {
		err := f()
		took := time.Since(begun).Round(time.Millisecond)
		if err == nil {
			s.Logf("%s: after %s", what, took)
			return
		}
		if took > 2*time.Minute {
			s.Fatalf("%s: not after %s: %v", what, took, err)
		}
		time.Sleep(20 * time.Millisecond) // give the machines time
	}
}

func (s *scene) launch(name, address, gateway string) {
	s.Helper()
	s.ok(s.contract.Machines.Launch(s.Context(), rehearsal.Machine{Name: name, Address: netip.MustParsePrefix(address), Gateway: netip.MustParseAddr(gateway), UserData: userData}))
}

func (s *scene) inside(name, script string) string {
	s.Helper()
	out, err := s.host.RunInside(s.Context(), name, "sh", "-c", script)
	s.ok(err)
	return strings.TrimSpace(string(out))
}

// leftovers returns what a rehearsal in a folder has left on a host.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	here := site.Site{Root: dir, Cluster: "rehearsal"}
	var out []string
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if strings.Contains(l.Name, here.ID()) {
			out = append(out, l.Name)
		}
	}
	rules, err := exec.Command("iptables-save").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(rules)) {
		if strings.Contains(line, here.Bridge()) {
			out = append(out, line)
		}
	}
	loops, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range loops {
		if file, err := os.ReadFile(l); err == nil && bytes.Contains(file, []byte(dir)) {
			out = append(out, string(file))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir) {
			out = append(out, line)
		}
	}
	filepath.WalkDir("/sys/fs/cgroup", func(path string, _ fs.DirEntry, err error) error { //nolint:errcheck // what cannot be read is not ours
		if err == nil && strings.Contains(path, here.ID()) {
			out = append(out, path)
		}
		return nil
	})
	for _, d := range []string{dir, filepath.Join(filepath.Dir(dir), "run")} {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
			out = append(out, d)
		}
	}
	return out
}

// TestAStage plays three names to machines, with disks and a load balancer, on a host where
// stages were killed, in the same folder and in another, and leaves nothing.
func TestAStage(t *testing.T) {
	localtest.Require(t)
	root := localtest.Workplace(t, "stage")
	before := ground.ReadSysctls(ground.Sysctls)
	dir, other := filepath.Join(root, "stage"), filepath.Join(root, "other")
	for _, d := range []string{dir, other} {
		killStage(t, d)
		if len(leftovers(t, d)) == 0 {
			t.Error("a stage that was killed leaves no traces: nothing is tested")
		}
	}
	o, err := options(dir)
	if err != nil {
		t.Fatal(err)
	}
	o.Bundle = newBundle(t)
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	stage, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t, stage, stage.Contract()}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if left := append(leftovers(t, dir), leftovers(t, other)...); len(left) > 0 {
			t.Errorf("left are:\n%s", strings.Join(left, "\n"))
		}
		if d := cmp.Diff(before, ground.ReadSysctls(ground.Sysctls)); d != "" {
			t.Errorf("the host's settings are not as they were: %s", d)
		}
	})
	if second, err := Open(t.Context(), o); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("a second stage: %v, %v", second, err)
	}
	o.Root = other
	if second, err := Open(t.Context(), o); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("a second stage in another folder: %v, %v", second, err)
	}
	s.ok(s.Play(newPlay()))
	s.ok(s.contract.Network.Addresses(addresses()))
	s.launch("one", "10.199.64.20/24", "10.199.64.1")
	s.launch("two", "10.199.65.20/24", "10.199.65.1")
	s.names()
	s.testCrossing()
	s.testDiskMoves()
	s.testUser()
}

// killStage opens a stage in another process, and kills it.
func killStage(t *testing.T, dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd := exec.Command(self, begin, dir)
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // its reader is gone
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 5)
	if _, err := io.ReadFull(out, said); err != nil {
		_ = cmd.Wait() // it has failed
		t.Fatalf("%v: %s", err, errs.String())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

func newPlay() *rehearsal.Play {
	say := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, text, r.Host, r.URL.Path) })
	}
	return &rehearsal.Play{
		Serves:  func(host string) bool { return host == "api.service.test" },
		Handler: say("the service"),
		Plain:   map[netip.Addr]http.Handler{netip.MustParseAddr("169.254.169.254"): say("metadata")},
		Lookup: func(name, kind string) ([]string, bool) {
			switch {
			case name == "own.zone.test" && kind == "A":
				return []string{"own.zone.test. 300 IN A 10.199.64.99"}, true
			case name == "own.zone.test":
				return nil, true
			}
			return nil, false
		},
		Environment: []string{"PLAYED=yes"},
	}
}

// names: a machine resolves and reaches what the play and the publishers serve, and its own name.
func (s *scene) names() {
	s.Helper()
	for _, name := range []string{"one", "two"} {
		s.wait("the script of "+name, func() error {
			log, err := s.contract.Machines.Console(name)
			if err != nil {
				return err
			}
			if strings.Contains(string(log), "failed with status") {
				s.Fatalf("its console:\n%s", log)
			}
			if !strings.Contains(string(log), "user data: finished") {
				return errors.New("it has not ended")
			}
			return nil
		})
		log, err := s.contract.Machines.Console(name)
		s.ok(err)
		for _, want := range []string{name + "\n", "the service api.service.test /hello\n", "a thing of the publisher", "metadata 169.254.169.254 /latest/\n", "10.199.64.99    own.zone.test\n", "the script has ended well\n"} {
			if !strings.Contains(string(log), want) {
				s.Errorf("the console of %s lacks %q:\n%s", name, want, log)
			}
		}
	}
	if all, err := s.contract.Machines.List(); err != nil || !all["one"] || !all["two"] || len(all) != 2 {
		s.Errorf("there are %v, %v", all, err)
	}
}

// testCrossing: machines of two networks, and a range behind a machine, reach each other; a
// load balancer forwards to machines.
func (s *scene) testCrossing() {
	s.Helper()
	s.ok(s.contract.Network.Routes(map[string]string{"100.96.1.0/24": "10.199.65.20"}))
	s.inside("two", "ip addr add 100.96.1.1/32 dev lo")
	for _, to := range []string{"10.199.65.20", "100.96.1.1"} {
		s.inside("one", "ping -q -c 1 -W 5 "+to)
	}
	two := netip.MustParseAddr("10.199.65.20")
	for _, own := range [][]netip.Prefix{{hostPrefix(two)}, {hostPrefix(two), netip.MustParsePrefix("100.96.1.0/24")}, nil} {
		checked := map[netip.Addr][]netip.Prefix{two: own}
		if own == nil {
			checked = nil
		}
		s.ok(s.contract.Network.Check(checked))
		want := map[bool]string{true: "dropped", false: "passed"}[len(own) == 1]
		s.inside("two", "ping -q -c 1 -W 5 10.199.64.20")
		for machine, ping := range map[string]string{"one": "100.96.1.1", "two": "-I 100.96.1.1 10.199.64.1"} {
			if got := s.inside(machine, "ping -q -c 1 -W 1 "+ping+" >/dev/null && echo passed || echo dropped"); got != want {
				s.Errorf("with the port's addresses %v, from %s: ping %s: %s", own, machine, ping, got)
			}
		}
	}
	at := netip.MustParseAddr("10.199.64.9")
	balancer := rehearsal.Balancer{Name: "b", Address: at, Fronts: []rehearsal.Front{{Port: 443, Target: 8443, Hosts: []string{"10.199.65.20"}}}}
	hello := func() string {
		c, err := net.DialTimeout("tcp", at.String()+":443", time.Second)
		if err != nil {
			return err.Error()
		}
		defer c.Close() //nolint:errcheck // it was only read
		text, _ := io.ReadAll(c)
		return strings.TrimSpace(string(text))
	}
	for _, c := range []struct{ host, name string }{{"10.199.65.20", "two"}, {"10.199.64.20", "one"}} {
		balancer.Fronts[0].Hosts = []string{c.host}
		s.ok(s.contract.Network.Balance([]rehearsal.Balancer{balancer}))
		s.wait("the balancer leads to "+c.name, func() error {
			if got := hello(); got != c.name {
				return errors.New(got)
			}
			return nil
		})
	}
	if got := s.inside("two", "socat -u TCP:10.199.64.9:443,connect-timeout=5 -"); got != "one" {
		s.Errorf("a machine is led to %s", got)
	}
	s.ok(s.contract.Network.Balance(nil))
	if got := hello(); !strings.Contains(got, "connect") && !strings.Contains(got, "timeout") {
		s.Errorf("a balancer that is gone says %s", got)
	}
}

// testDiskMoves: what a machine wrote on a disk is there in the next machine.
func (s *scene) testDiskMoves() {
	s.Helper()
	ctx, d := s.Context(), rehearsal.Disk{Name: "vol-1", GiB: 1, Machine: "one", Paths: []string{"/dev/nvme9n1", "/dev/xvdu", "/dev/disk/by-id/nvme-vol1"}}
	for range 2 {
		s.ok(s.contract.Disks.Plug(ctx, d))
	}
	s.inside("one", "test -b /dev/xvdu && test $(blockdev --getsize64 /dev/nvme9n1) = 1073741824")
	s.inside("one", "mkfs.ext4 -q /dev/disk/by-id/nvme-vol1 && mount /dev/xvdu /mnt && echo kept > /mnt/data && sync -f /mnt")
	other := d
	other.Machine = "two"
	if err := s.contract.Disks.Plug(ctx, other); !fault.Is(err, fault.Conflict) {
		s.Errorf("a disk that another machine has: %v", err)
	}
	if err := s.contract.Disks.Discard(ctx, d.Name); !fault.Is(err, fault.Conflict) {
		s.Errorf("discarded while a machine has it: %v", err)
	}
	for range 2 {
		s.ok(s.contract.Machines.Destroy(ctx, "one"))
	}
	s.ok(s.contract.Disks.Plug(ctx, other)) // the disk was plugged in when the machine ended
	if got := s.inside("two", "mount /dev/xvdu /mnt && cat /mnt/data"); got != "kept" {
		s.Errorf("on the disk is %q", got)
	}
	s.inside("two", "systemctl reboot")
	s.wait("the inside starts again", func() error {
		out, err := s.host.RunInside(ctx, "two", "sh", "-c", "test ! -e /dev/xvdu && echo anew")
		if err == nil && string(out) != "anew\n" {
			err = errors.New("it has the device of before")
		}
		return err
	})
	s.ok(s.contract.Disks.Plug(ctx, other))
	if got := s.inside("two", "mount /dev/xvdu /mnt && cat /mnt/data && umount /mnt"); got != "kept" {
		s.Errorf("after the start, on the disk is %q", got)
	}
	for range 2 {
		s.ok(s.contract.Disks.Unplug(ctx, d.Name))
	}
	s.inside("two", "! test -e /dev/xvdu && ! test -e /dev/nvme9n1")
	for range 2 {
		s.ok(s.contract.Disks.Discard(ctx, d.Name))
	}
	if files, err := site.List(s.site.Path(site.Volumes)); err != nil || len(files) > 0 {
		s.Errorf("left are the disks %v %v", files, err)
	}
}

// testUser: a program of the user sees the rehearsal, and the user's own environment does not.
func (s *scene) testUser() {
	s.Helper()
	self, err := os.Executable()
	s.ok(err)
	cmd := s.Command(s.Context(), []string{"HTTPS_PROXY=http://nobody.test"}, self, fetch, "https://api.service.test/of-the-user")
	var out bytes.Buffer
	cmd.Stdout = &out
	s.ok(cmd.Run())
	if got := out.String(); got != "the service api.service.test /of-the-user\n" {
		s.Errorf("got %q", got)
	}
	if !slices.Contains(cmd.Env, "PLAYED=yes") {
		s.Errorf("the environment is %v", cmd.Env)
	}
	if out, err := exec.Command(self, fetch, "https://api.service.test/").CombinedOutput(); err == nil {
		s.Errorf("outside of the rehearsal: %s", out)
	}
}

// TestABundleIsMissedAtOnce: before anything is created.
func TestABundleIsMissedAtOnce(t *testing.T) {
	localtest.Require(t)
	o, err := options(filepath.Join(t.TempDir(), "stage"))
	if err != nil {
		t.Fatal(err)
	}
	o.Bundle = t.TempDir()
	_, err = Open(t.Context(), o)
	if err == nil || fault.Remedy(err) != bundle.Remedy {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(o.Root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
}
