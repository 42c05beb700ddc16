package weight

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// budgets are the maximum sizes of stripped programs, in megabytes, as the Makefile builds them.
// They leave room for small changes; a larger increase must be justified in its commit.
func budgets() map[string]float64 {
	return map[string]float64{
		"cmd/kops": 59, "cmd/kops-rehearse": 31, "cmd/kops-controller": 38, "cmd/dns-controller": 36, "cmd/channels": 36, "cmd/etcd-manager": 23,
		"cmd/nodeup": 17, "cmd/kube-apiserver-healthcheck": 8, "cmd/go-runner": 4, "cmd/pause": 2,
		"internal/test/weight/library": 23,
	}
}

// TestProgramsStayWithinTheirSize builds each program. One that is too large probably links
// code that looks up methods by name: then the linker keeps every method of every type.
func TestProgramsStayWithinTheirSize(t *testing.T) {
	programs, err := filepath.Glob("../../../cmd/*")
	if err != nil || len(programs) == 0 {
		t.Fatalf("%d programs: %v", len(programs), err)
	}
	for _, dir := range programs {
		if name := "cmd/" + filepath.Base(dir); budgets()[name] == 0 {
			t.Errorf("%s has no budget", name)
		}
	}
	for name, most := range budgets() {
		t.Run(filepath.Base(name), func(t *testing.T) {
			file, lookups := build(t, name)
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			size := float64(info.Size()) / 1e6
			t.Logf("%.1f MB", size)
			if size > most {
				t.Errorf("%s has %.1f MB, and may have %.0f MB; see what grew with: go tool nm -size -sort size", name, size, most)
			}
			if len(lookups) > 0 {
				t.Errorf("%s looks up methods by a name, so the linker keeps every method of every type: %s", name, strings.Join(lookups, ", "))
			}
		})
	}
}

// byName matches the linker's report of a function that looks up methods by name.
var byName = regexp.MustCompile(`^(\S+) <ReflectMethod>`)

// build links a program as the Makefile does, and returns its file and its functions that
// look up methods by name. Go caches the linker's output with the compiled main package,
// and repeats it for each later build; so build compiles that package with a unique flag.
func build(t testing.TB, name string) (file string, lookups []string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), filepath.Base(name))
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-gcflags=./"+name+"=-dwarf=false -e", "-tags", "grpcnotrace",
		"-ldflags", "-s -w -dumpdep", "-o", file, "./"+name)
	cmd.Dir = "../../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out[:min(len(out), 4000)])
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := byName.FindStringSubmatch(lines.Text()); m != nil {
			lookups = append(lookups, m[1])
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(lookups)
	return file, slices.Compact(lookups)
}

// Limits on the allocations of packages before main: in total, and for each of kops' own; and on the
// resident memory of the smallest command, most of which is the parts of the program that it maps.
const (
	startBytes   = 3_200_000
	packageBytes = 40_000
	residentMiB  = 36
)

// initLine matches the runtime's line on one package's initialization.
var initLine = regexp.MustCompile(`^init (\S+) @.* (\d+) bytes,`)

// TestKopsStartsWithLittleMemory reads the runtime's own statistics, which are nearly the same for
// each start, unlike times; and the kernel's count of resident memory, the least of some starts.
func TestKopsStartsWithLittleMemory(t *testing.T) {
	file, _ := build(t, "cmd/kops")
	least, program := math.Inf(1), copyInPages(t, file)
	for range 5 {
		least = min(least, measure(t, program, "version").resident)
	}
	t.Logf("%.1f MiB", least)
	if least > residentMiB {
		t.Errorf("kops version has %.1f MiB of resident memory, and may have %d MiB", least, residentMiB)
	}
	cmd := exec.Command(file, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sum := 0
	for line := range strings.Lines(string(out)) {
		m := initLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
		if own := strings.HasPrefix(m[1], "kops.local/kops"); own && n > packageBytes {
			t.Errorf("%s allocates %d bytes at every start, and may allocate %d; make it when it is first used", m[1], n, packageBytes)
		}
	}
	t.Logf("%d bytes", sum)
	if sum == 0 || sum > startBytes {
		t.Errorf("packages allocate %d bytes at every start, and may allocate %d; see which with GODEBUG=inittrace=1", sum, startBytes)
	}
}
