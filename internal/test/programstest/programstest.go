// Package programstest creates archives of programs that stand in for kops' own.
package programstest

import (
	"os"
	"path/filepath"
	"testing"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/ops/delivery"
)

// Archive writes the archive of a version into a folder and returns its path. Its
// programs, for every architecture, print text.
func Archive(t testing.TB, folder, version, text string) string {
	t.Helper()
	return ArchiveOf(t, folder, version, func(name string) string { return "#!/bin/sh\necho '" + name + " " + text + "'\n" })
}

// ArchiveOf is Archive for programs with other contents, by name.
func ArchiveOf(t testing.TB, folder, version string, content func(name string) string) string {
	t.Helper()
	own := t.TempDir()
	names := []string{"nodeup", "go-runner", programs.Controller, programs.Channels, programs.EtcdManager, programs.DNSController, programs.Healthcheck}
	for _, n := range names {
		write(t, filepath.Join(own, n), content(n))
	}
	at := filepath.Join(folder, delivery.FileName(version))
	write(t, at, "")
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.Pack(f, own, version, download.Arches(), func(string) {}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return at
}

func write(t testing.TB, at, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
