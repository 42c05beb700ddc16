package weight

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// measuring is the variable that makes the test binary measure a command.
const measuring = "KOPS_TEST_MEASURE"

// usage is what a command used: resident memory in MiB, and the time of processors.
type usage struct {
	resident float64
	cpu      time.Duration
}

// TestMain makes the test binary run a command, and print what it used. The kernel counts the memory
// of the process that starts a command as the command's, too; so it is a small one, which has built
// nothing.
func TestMain(m *testing.M) {
	if os.Getenv(measuring) == "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	if err := cmd.Run(); err != nil {
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(cmd.ProcessState.SysUsage()); err != nil {
		os.Exit(1)
	}
}

// copyInPages copies a program so that the kernel caches each of its pages apart. Otherwise a page
// that is used may be mapped with megabytes around it, as the program was written in larger pieces,
// and counts of resident memory differ by a quarter.
func copyInPages(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(file+".copy", os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	for page := range slices.Chunk(data, 4096) {
		if _, err := out.Write(page); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Name()
}

// measure runs a command.
func measure(t testing.TB, command ...string) usage {
	t.Helper()
	cmd := exec.Command(os.Args[0], command...)
	cmd.Env = append(os.Environ(), measuring+"=1")
	out, err := cmd.Output()
	var u syscall.Rusage
	if err == nil {
		err = json.Unmarshal(out, &u)
	}
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return usage{float64(u.Maxrss) / 1024, time.Duration(u.Utime.Nano() + u.Stime.Nano())}
}

// BenchmarkVersion starts kops to print its version, the least that it does.
func BenchmarkVersion(b *testing.B) {
	file, _ := build(b, "cmd/kops")
	info, err := os.Stat(file)
	if err != nil {
		b.Fatal(err)
	}
	file = copyInPages(b, file)
	var sum usage
	starts := 0.0
	for b.Loop() {
		u := measure(b, file, "version")
		sum.resident, sum.cpu = sum.resident+u.resident, sum.cpu+u.cpu
		starts++
	}
	b.ReportMetric(float64(info.Size())/1e6, "MB")
	b.ReportMetric(sum.resident/starts, "MiB-resident")
	b.ReportMetric(float64(sum.cpu.Microseconds())/1000/starts, "cpu-ms/op")
}
