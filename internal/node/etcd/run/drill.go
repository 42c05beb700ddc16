package run

import (
	"context"
	"crypto/tls"
	"io"
	"os"
	"path/filepath"
	"time"

	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/backup"
	"kops.local/kops/internal/node/etcd/live"
	"kops.local/kops/internal/node/etcd/member"
)

// driller restores back-ups beside a cluster.
type driller struct {
	archive  backup.Archive // of its own, as those are not used concurrently
	programs member.Programs
	dir      string
	tls      *tls.Config
	output   io.Writer
	now      func() time.Time
}

// drill restores a back-up, compares it with what a peer's member serves, and throws it away.
func (d driller) drill(ctx context.Context, name string, at etcd.Peer) etcd.Drilled {
	out := etcd.Drilled{Backup: name}
	if err := d.compare(ctx, &out, at); err != nil {
		out.Problem = err.Error()
	}
	return out
}

func (d driller) compare(ctx context.Context, out *etcd.Drilled, at etcd.Peer) error {
	start := d.now()
	meta, err := etcd.ReadMeta(ctx, d.archive.Store, out.Backup)
	if err != nil {
		return err
	}
	out.EtcdVersion = meta.EtcdVersion
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir) // the next one would clear it
	snapshot := filepath.Join(d.dir, "snapshot.db")
	if _, err := d.archive.Fetch(ctx, out.Backup, snapshot); err != nil {
		return err
	}
	return d.programs.Beside(ctx, filepath.Join(d.dir, "etcd"), meta.EtcdVersion, snapshot, d.output, func(ctx context.Context, endpoint string) error {
		restored, err := live.At(endpoint)
		if err != nil {
			return err
		}
		defer restored.Close() // with its etcd
		if out.Revision, out.Keys, out.Bytes, err = live.Serves(ctx, restored); err != nil {
			return err
		}
		out.Took = d.now().Sub(start)
		running, err := live.Connect(d.tls, at)
		if err != nil {
			return err
		}
		defer running.Close() // nothing is under way
		return live.Compare(ctx, restored, running, out)
	})
}
