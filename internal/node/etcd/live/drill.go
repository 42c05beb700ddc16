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
	// mostWrong is how many keys are named that are not as they should be.
	mostWrong = 10
	// startTime is how long etcd may take to serve what was restored.
	startTime = 2 * time.Minute
)

// At connects to an etcd without TLS.
func At(endpoint string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: startTime, Logger: zap.NewNop()})
}

// Serves waits until an etcd answers, and returns its revision, its keys and the size of
// its database.
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

// Compare compares what was restored, as of its last revision, with what a cluster that
// went on serves: a key that it has not changed since has to be the same in both.
func Compare(ctx context.Context, restored, running *clientv3.Client, to *etcd.Drilled) error {
	now, err := count(ctx, running)
	if err != nil {
		return fmt.Errorf("ask the cluster: %w", err)
	}
	to.Now = now.Header.Revision
	was, is := &keys{client: restored}, &keys{client: running, revision: to.Now}
	for {
		a, err := was.peek(ctx)
		if err != nil {
			return fmt.Errorf("read what was restored: %w", err)
		}
		b, err := is.peek(ctx)
		if errors.Is(err, rpctypes.ErrCompacted) {
			return errors.New("the cluster was compacted meanwhile; drill again")
		}
		if err != nil {
			return fmt.Errorf("read the cluster: %w", err)
		}
		if a == nil && b == nil {
			return nil
		}
		switch order := order(a, b); {
		case order < 0: // the cluster has it no more
			to.Deleted++
			was.next()
		case order > 0:
			judge(to, nil, b)
			is.next()
		default:
			judge(to, a, b)
			was.next()
			is.next()
		}
	}
}

// judge counts a key of the cluster, which the back-up has as was, or not at all.
func judge(to *etcd.Drilled, was, is *mvccpb.KeyValue) {
	since := is.ModRevision > to.Revision
	switch {
	case since && was == nil:
		to.Made++
	case since:
		to.Changed++
	case was != nil && was.ModRevision == is.ModRevision && string(was.Value) == string(is.Value):
		to.Same++
	case len(to.Wrong) < mostWrong:
		to.Wrong = append(to.Wrong, string(is.Key))
	}
}

// order compares two keys; the end comes after all.
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

// keys reads all keys of an etcd in their order, a page at a time, as of a revision; 0: the last.
type keys struct {
	client   *clientv3.Client
	revision int64
	from     string
	page     []*mvccpb.KeyValue
	ended    bool
}

// peek returns the next key, nil at the end.
func (k *keys) peek(ctx context.Context) (*mvccpb.KeyValue, error) {
	if len(k.page) == 0 && !k.ended {
		if k.from == "" {
			k.from = "\x00"
		}
		r, err := k.client.Get(ctx, k.from, clientv3.WithFromKey(), clientv3.WithLimit(pageKeys), clientv3.WithRev(k.revision), clientv3.WithSerializable())
		if err != nil {
			return nil, err
		}
		k.page, k.ended = r.Kvs, !r.More
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
