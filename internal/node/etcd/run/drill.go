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

// driller restores backups separately from a cluster.
type driller struct {
	archive  backup.Archive // separate, because archives must not be used concurrently
	programs member.Programs
	dir      string
	tls      *tls.Config
	output   io.Writer
	now      func() time.Time
}

// drill restores a backup, compares it with the data that a peer's member serves, and discards it.
func (d driller) drill(ctx context.Context, name string, at etcd.Peer) etcd.DrillResult {
	out := etcd.DrillResult{Backup: name}
	if err := d.compare(ctx, &out, at); err != nil {
		out.Problem = err.Error()
	}
	return out
}

func (d driller) compare(ctx context.Context, out *etcd.DrillResult, at etcd.Peer) error {
	start := d.now()
	meta, err := etcd.ReadMeta(ctx, d.archive.Store, out.Backup)
	if err != nil {
		return err
	}
	out.EtcdVersion = meta.EtcdVersion
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir) // otherwise the next drill clears it
	snapshot := filepath.Join(d.dir, "snapshot.db")
	if _, err := d.archive.Fetch(ctx, out.Backup, snapshot); err != nil {
		return err
	}
	return d.programs.WithRestored(ctx, filepath.Join(d.dir, "etcd"), meta.EtcdVersion, snapshot, d.output, func(ctx context.Context, endpoint string) error {
		restored, err := live.ConnectPlain(endpoint)
		if err != nil {
			return err
		}
		defer restored.Close() // its etcd stops, too
		if out.Revision, out.Keys, out.Bytes, err = live.Serves(ctx, restored); err != nil {
			return err
		}
		out.Took = d.now().Sub(start)
		running, err := live.Connect(d.tls, at)
		if err != nil {
			return err
		}
		defer running.Close() // no request is in progress
		return live.Compare(ctx, restored, running, out)
	})
}
