package sandbox

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// Nodeup is a program that stands in for nodeup where a boot script runs it: it records how it was run.
const Nodeup = "#!/bin/bash\nenv -0 > /opt/kops/env\nprintf '%s\\n' \"$@\" > /opt/kops/ran\n"

// Environment returns the variables with which Nodeup was run.
func Environment(t testing.TB) map[string]string {
	t.Helper()
	text, err := os.ReadFile("/opt/kops/env")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for v := range strings.SplitSeq(string(text), "\x00") {
		name, value, _ := strings.Cut(v, "=")
		out[name] = value
	}
	return out
}

// Archive returns an archive that stands in for every file that machines fetch: it also works as a program.
func Archive(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	for _, name := range []string{"bin/a", "b"} {
		if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: 1, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return Compress(t, b.String())
}

// Compress returns a text, compressed.
func Compress(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, text)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
