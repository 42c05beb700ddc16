package manager

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/snapshot"
	"kops.local/kops/internal/store"
)

// flaky is the store as seen from one machine.
type flaky struct {
	m *machine
	*store.Memory
}

// checkRequest records a violation if a request has no time limit, and fails if the store
// cannot be reached.
func (f *flaky) checkRequest(ctx context.Context) error {
	w := f.m.w
	w.requests++
	if _, ends := ctx.Deadline(); !ends {
		w.breaks("the store is asked without an end")
	}
	switch {
	case f.m.crashed:
		return errGone
	case w.storeOff || w.faults && w.rng.IntN(60) == 0:
		return fault.New(fault.Lost, "the store does not answer")
	}
	return nil
}

func (f *flaky) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (v store.Version, err error) {
	f.m.w.interleave(f.m)
	if err := f.checkRequest(ctx); err != nil {
		return "", err
	}
	f.delay()
	err = f.m.mishap(func() error { v, err = f.Memory.Put(ctx, key, data, o); return err })
	return v, err
}

// delay sometimes lets time pass until the store answers: while the others continue,
// and sometimes longer than any manager waits.
func (f *flaky) delay() {
	w := f.m.w
	if w.faults && w.rng.IntN(50) == 0 {
		for range 3 {
			w.now = w.now.Add(time.Duration(w.rng.IntN(15000)) * time.Millisecond)
			w.interleave(f.m)
		}
	}
}

func (f *flaky) Delete(ctx context.Context, key string, o store.DeleteOptions) error {
	if err := f.checkRequest(ctx); err != nil {
		return err
	}
	return f.m.mishap(func() error { return f.Memory.Delete(ctx, key, o) })
}

func (f *flaky) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	if err := f.checkRequest(ctx); err != nil {
		return nil, "", err
	}
	return f.Memory.Get(ctx, key)
}

func (f *flaky) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	if err := f.checkRequest(ctx); err != nil {
		return func(yield func(store.Info, error) bool) { yield(store.Info{}, err) }
	}
	return f.Memory.List(ctx, prefix)
}

// packWrites returns a snapshot: the revision and the writes as lines, padded to whole
// pages, and their digest.
func packWrites(revision int64, log []string) []byte {
	text := []byte(strings.Join(append([]string{strconv.FormatInt(revision, 10)}, log...), "\n"))
	text = append(text, bytes.Repeat([]byte{0}, 512-len(text)%512)...)
	sum := sha256.Sum256(text)
	return append(text, sum[:]...)
}

// unpackWrites reads the output of packWrites, compressed by an archive.
func unpackWrites(packed []byte) (revision int64, log []string, err error) {
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return 0, nil, err
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		return 0, nil, err
	}
	return readWrites(text)
}

func readWrites(text []byte) (revision int64, log []string, err error) {
	lines := strings.Split(strings.TrimRight(string(text[:len(text)-sha256.Size]), "\x00"), "\n")
	revision, err = strconv.ParseInt(lines[0], 10, 64)
	return revision, lines[1:], err
}

// inspectWrites is the counterpart of snapshot.Read.
func inspectWrites(file string) (snapshot.Contents, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return snapshot.Contents{}, err
	}
	revision, log, err := readWrites(text)
	return snapshot.Contents{Revision: revision, Keys: int64(len(log))}, err
}

func (v view) Defragment(_ context.Context, member string, _ bool) (before, after int64, err error) {
	v.m.w.interleave(v.m)
	return 2, 1, v.m.mishap(func() error { return nil })
}

func (v view) Disarm(context.Context, bool) ([]string, error) {
	return []string{etcd.NoSpace}, v.m.mishap(func() error { return nil })
}
