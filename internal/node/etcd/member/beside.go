package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"kops.local/kops/internal/engine/fault"
)

const (
	// besideURL is the peer URL of a separate etcd, which has no peers.
	besideURL = "http://127.0.0.1:1"
	// besideSocket is where it listens for clients: a file in its folder, which no other user may enter.
	besideSocket = "client:0"
	// besideEnd is how long it may take to stop.
	besideEnd = 5 * time.Second
)

// WithRestored restores a snapshot into a new folder, runs a separate etcd there that only this
// process reaches, and calls use with its endpoint, which need not answer yet. Afterwards
// it stops that etcd and removes the folder.
func (p Programs) WithRestored(ctx context.Context, dir, version, snapshot string, output io.Writer, use func(ctx context.Context, endpoint string) error) (err error) {
	version = p.serve(version)
	program, restorer := p.find(version, "etcd"), p.restorer(version)
	if program == "" || restorer == "" {
		return fault.New(fault.Permanent, "etcd %s and the program that restores its snapshots are not in %s", version, p)
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return fmt.Errorf("create a folder for etcd beside the cluster: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	data := filepath.Join(dir, "data")
	restore := exec.CommandContext(ctx, restorer, "snapshot", "restore", snapshot, "--data-dir", data, "--name", "drill",
		"--initial-cluster", "drill="+besideURL, "--initial-advertise-peer-urls", besideURL)
	bind(restore)
	runtime.LockOSThread() // a bound process is killed when the thread that started it ends
	defer runtime.UnlockOSThread()
	if out, err := restore.CombinedOutput(); err != nil {
		return fmt.Errorf("restore the snapshot: %w: %s", err, lastLine(out))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	etcd := exec.CommandContext(ctx, program)
	bind(etcd)
	etcd.Dir, etcd.Stdout, etcd.Stderr, etcd.WaitDelay = dir, output, output, besideEnd
	etcd.Env = []string{"ETCD_NAME=drill", "ETCD_DATA_DIR=" + data, "ETCD_LOGGER=zap", "ETCD_LOG_OUTPUTS=stdout", "ETCD_LOG_LEVEL=error",
		"ETCD_LISTEN_CLIENT_URLS=unix://" + besideSocket, "ETCD_ADVERTISE_CLIENT_URLS=" + besideURL,
		"ETCD_LISTEN_PEER_URLS=unix://peer:0", "ETCD_INITIAL_ADVERTISE_PEER_URLS=" + besideURL, "ETCD_INITIAL_CLUSTER=drill=" + besideURL}
	if err := etcd.Start(); err != nil {
		return fmt.Errorf("start etcd beside the cluster: %w", err)
	}
	err = use(ctx, "unix://"+filepath.Join(dir, besideSocket))
	cancel()
	_ = etcd.Wait() // it was killed
	return err
}
