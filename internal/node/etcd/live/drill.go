package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"kops.local/kops/internal/node/etcd"
)

const (
	// pageKeys is how many keys are read at once.
	pageKeys = 200
	// maxWrong is the maximum number of wrong keys that are listed.
	maxWrong = 10
	// startTime is how long etcd may take to serve the restored data.
	startTime = 2 * time.Minute
)

// ConnectPlain connects to an etcd without TLS.
func ConnectPlain(endpoint string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: startTime, Logger: zap.NewNop()})
}

// Serves waits until an etcd answers, and returns its revision, its number of keys and
// the size of its database.
func Serves(ctx context.Context, c *clientv3.Client) (revision, keys, bytes int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		all, err := count(ctx, c)
		if err == nil {
			status, err := c.Status(ctx, c.Endpoints()[0])
			if err != nil {
				return 0, 0, 0, err
			}
			return all.Header.Revision, all.Count, status.DbSize, nil
		}
		select {
		case <-ctx.Done():
			return 0, 0, 0, errors.Join(fmt.Errorf("etcd does not serve the backup: %w", err), ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Compare compares the restored data, at their last revision, with those of a cluster
// that has kept running: a key that the cluster has not changed since must be the same
// in both.
func Compare(ctx context.Context, restored, running *clientv3.Client, to *etcd.DrillResult) error {
	now, err := count(ctx, running)
	if err != nil {
		return fmt.Errorf("query the cluster: %w", err)
	}
	to.Now = now.Header.Revision
	was, is := &keys{client: restored}, &keys{client: running, revision: to.Now}
	for {
		a, err := was.peek(ctx)
		if err != nil {
			return fmt.Errorf("read the restored data: %w", err)
		}
		b, err := is.peek(ctx)
		if errors.Is(err, rpctypes.ErrCompacted) {
			return errors.New("the cluster was compacted in the meantime; run the drill again")
		}
		if err != nil {
			return fmt.Errorf("read the cluster: %w", err)
		}
		if a == nil && b == nil {
			return nil
		}
		switch order := order(a, b); {
		case order < 0: // the cluster no longer has it
			to.Deleted++
			was.next()
		case order > 0:
			compareKey(to, nil, b)
			is.next()
		default:
			compareKey(to, a, b)
			was.next()
			is.next()
		}
	}
}

// compareKey counts a key of the cluster; was is the key in the backup, or nil.
func compareKey(to *etcd.DrillResult, was, is *mvccpb.KeyValue) {
	since := is.ModRevision > to.Revision
	switch {
	case since && was == nil:
		to.Made++
	case since:
		to.Changed++
	case was != nil && was.ModRevision == is.ModRevision && string(was.Value) == string(is.Value):
		to.Same++
	case len(to.Wrong) < maxWrong:
		to.Wrong = append(to.Wrong, string(is.Key))
	}
}

// order compares two keys; nil, the end, sorts last.
func order(a, b *mvccpb.KeyValue) int {
	switch {
	case a == nil:
		return 1
	case b == nil, string(a.Key) < string(b.Key):
		return -1
	case string(a.Key) > string(b.Key):
		return 1
	}
	return 0
}

// keys reads all keys of an etcd in order, a page at a time, at a revision; 0 means the latest.
type keys struct {
	client   *clientv3.Client
	revision int64
	from     string
	page     []*mvccpb.KeyValue
	done     bool
}

// peek returns the next key, nil at the end.
func (k *keys) peek(ctx context.Context) (*mvccpb.KeyValue, error) {
	if len(k.page) == 0 && !k.done {
		if k.from == "" {
			k.from = "\x00"
		}
		r, err := k.client.Get(ctx, k.from, clientv3.WithFromKey(), clientv3.WithLimit(pageKeys), clientv3.WithRev(k.revision), clientv3.WithSerializable())
		if err != nil {
			return nil, err
		}
		k.page, k.done = r.Kvs, !r.More
		if n := len(r.Kvs); n > 0 {
			k.from = string(r.Kvs[n-1].Key) + "\x00"
		}
	}
	if len(k.page) == 0 {
		return nil, nil
	}
	return k.page[0], nil
}

func (k *keys) next() { k.page = k.page[1:] }
