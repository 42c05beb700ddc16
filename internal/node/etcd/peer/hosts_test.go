package peer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// disk is a file on a disk that is full, or fails.
type disk struct {
	*os.File
	size         int64 // of the file, at most
	failingWrite int   // which write fails halfway, counted from 1
}

var errDisk = errors.New("no space left on device")

func (d *disk) WriteAt(p []byte, at int64) (int, error) {
	d.failingWrite--
	room := len(p)
	if d.failingWrite == 0 {
		room /= 2
	}
	room = min(room, int(d.size-at))
	n, err := d.File.WriteAt(p[:room], at)
	if err == nil && n < len(p) {
		err = errDisk
	}
	return n, err
}

func TestAFullDiskDamagesNothing(t *testing.T) {
	const old = "127.0.0.1\tlocalhost\n# our own\n"
	longer, shorter := old+"10.0.0.1\tetcd-a.internal.x\n", old[:20]
	for name, x := range map[string]struct {
		size   int64
		broken int
		text   string
		fails  bool
	}{
		"room for all":           {size: 1000, text: longer},
		"a shorter text":         {size: 1000, text: shorter},
		"room for no more":       {size: int64(len(old)), text: longer, fails: true},
		"room for half of it":    {size: int64(len(old)) + 10, text: longer, fails: true},
		"a disk that breaks":     {size: 1000, broken: 2, text: strings.ToUpper("x" + longer), fails: true},
		"a shorter text on such": {size: 1000, broken: 1, text: "x" + shorter, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "hosts")
			if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			want := x.text
			if x.fails {
				want = old
			}
			if err := rewrite(&disk{f, x.size, x.broken}, []byte(old), []byte(x.text)); errors.Is(err, errDisk) != x.fails {
				t.Errorf("it is written with %v", err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Errorf("the file has %q, %v", got, err)
			}
		})
	}
}
