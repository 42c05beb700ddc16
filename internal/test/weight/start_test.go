package weight

import (
	"os"
	"os/exec"
	"testing"
)

// BenchmarkVersion starts kops to print its version, the least that it does.
func BenchmarkVersion(b *testing.B) {
	file, _ := build(b, "cmd/kops")
	info, err := os.Stat(file)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if out, err := exec.Command(file, "version").CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	b.ReportMetric(float64(info.Size())/1e6, "MB")
}
