// Package live talks to the running members of an etcd cluster through etcd's own
// API: the list of members and their state, changes of the membership, snapshots.
//
// It must not know why a change is made.
package live

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/backup"
	"kops.local/kops/internal/node/etcd/snapshot"
)

const (
	// askTimeout is how long a member may take to report its state.
	askTimeout = 2 * time.Second
	// changeTimeout is how long a change of the membership may take.
	changeTimeout = 10 * time.Second
)

// Cluster connects to the members at the peers of the last call of ListMembers. Its methods must not
// be called concurrently.
type Cluster struct {
	// Self is the peer whose own member is preferred for snapshots.
	Self string
	// TLS is the client configuration for etcd; nil for plain http.
	TLS *tls.Config

	clients map[endpoint]*clientv3.Client
	voters  []answer // healthy ones, as of the last ListMembers
}

// endpoint is the address of a peer's etcd. Another peer may later have the
// address, and then has another certificate.
type endpoint struct{ peer, address string }

// answer is a member's report about itself.
type answer struct {
	peer   etcd.Peer
	client *clientv3.Client
	status *clientv3.StatusResponse
}

// ListMembers asks every peer with data of a cluster for the state of its member, and a
// majority for the list of members. Without a majority the result is nil.
func (c *Cluster) ListMembers(ctx context.Context, token string, peers []etcd.Peer) []etcd.Member {
	answers := c.ask(ctx, token, peers)
	c.voters = nil
	byID := map[string]answer{}
	for _, a := range answers {
		if a.status.Leader == 0 {
			continue
		}
		byID[memberID(a.status.Header.MemberId)] = a
		if !a.status.IsLearner {
			c.voters = append(c.voters, a)
		}
	}
	for _, a := range c.voters {
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		list, err := a.client.MemberList(asking) // linearizable: a majority has agreed
		cancel()
		if err == nil {
			out := members(list.Members, byID)
			c.alarms(ctx, out)
			return out
		}
	}
	return nil
}

func members(list []*pb.Member, answers map[string]answer) []etcd.Member {
	var out []etcd.Member
	for _, m := range list {
		x := etcd.Member{ID: memberID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, Learner: m.IsLearner}
		if a, ok := answers[x.ID]; ok {
			x.Healthy, x.Leader, x.Version, x.Storage = true, a.status.Leader == m.ID, a.status.Version, a.status.StorageVersion
			x.Index, x.Revision, x.Errors = a.status.RaftIndex, a.status.Header.Revision, a.status.Errors
			x.Size, x.InUse, x.Quota = a.status.DbSize, a.status.DbSizeInUse, a.status.DbSizeQuota
			if d := a.status.DowngradeInfo; d != nil && d.Enabled {
				x.Downgrade = d.TargetVersion
			}
		}
		out = append(out, x)
	}
	return out
}

// ask collects the reports of the members at the peers.
func (c *Cluster) ask(ctx context.Context, token string, peers []etcd.Peer) []answer {
	answers := make([]answer, len(peers))
	var wg sync.WaitGroup
	used := map[endpoint]bool{}
	for i, p := range peers {
		if p.State.Token != token || p.State.Stopped {
			continue
		}
		client, at, err := c.connect(p)
		if err != nil {
			continue // a peer without a usable address cannot answer
		}
		used[at] = true
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			if status, err := client.Status(ctx, at.address); err == nil {
				answers[i] = answer{p, client, status}
			}
		})
	}
	wg.Wait()
	for at, client := range c.clients {
		if !used[at] {
			_ = client.Close() // the peer is gone
			delete(c.clients, at)
		}
	}
	return slices.DeleteFunc(answers, func(a answer) bool { return a.status == nil })
}

// connect returns the connection to a peer's member: at the host of its manager
// and the port on which its etcd listens now, so that no name needs to be
// resolved.
func (c *Cluster) connect(p etcd.Peer) (*clientv3.Client, endpoint, error) {
	urls := p.ClientURLs
	if p.State.Quarantined {
		urls = p.QuarantineURLs
	}
	if len(urls) == 0 {
		return nil, endpoint{}, fmt.Errorf("peer %s has no URL for clients", p.ID)
	}
	u, err := url.Parse(urls[0])
	if err != nil {
		return nil, endpoint{}, fmt.Errorf("the URL of peer %s: %w", p.ID, err)
	}
	host, _, err := net.SplitHostPort(p.Endpoint)
	if err != nil {
		return nil, endpoint{}, fmt.Errorf("the address of peer %s: %w", p.ID, err)
	}
	at := endpoint{p.ID, u.Scheme + "://" + net.JoinHostPort(host, u.Port())}
	if client := c.clients[at]; client != nil {
		return client, at, nil
	}
	cfg := clientv3.Config{Endpoints: []string{at.address}, DialTimeout: askTimeout, Logger: zap.NewNop(),
		DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: time.Second,
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: time.Second},
		})}}
	if u.Scheme == "https" && c.TLS != nil {
		cfg.TLS = c.TLS.Clone()
		cfg.TLS.ServerName = p.ID
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, endpoint{}, fmt.Errorf("connect to the etcd of %s: %w", p.ID, err)
	}
	if c.clients == nil {
		c.clients = map[endpoint]*clientv3.Client{}
	}
	c.clients[at] = client
	return client, at, nil
}

// Change changes the membership: AddLearner, Promote, Remove, SetURLs, MoveLeader or
// AllowDowngrade. Repeating a change is not an error. The class is fault.NotYet if etcd wants a
// member to catch up first.
func (c *Cluster) Change(ctx context.Context, a etcd.Action) error {
	if len(c.voters) == 0 {
		return fault.New(fault.NotYet, "%s: no member responds", a)
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	err := c.change(ctx, c.voters[0].client, a)
	switch {
	case errors.Is(err, rpctypes.ErrMemberLearnerNotReady), errors.Is(err, rpctypes.ErrTooManyLearners), errors.Is(err, rpctypes.ErrUnhealthy), errors.Is(err, rpctypes.ErrMemberNotEnoughStarted):
		return fault.Wrap(fault.NotYet, fmt.Errorf("%s: %w", a, err), "")
	case errors.Is(err, rpctypes.ErrMemberNotFound), errors.Is(err, rpctypes.ErrMemberNotLearner), errors.Is(err, rpctypes.ErrPeerURLExist), errors.Is(err, rpctypes.ErrNoInflightDowngrade):
		return nil // it was done before
	case err != nil:
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

func (c *Cluster) change(ctx context.Context, client *clientv3.Client, a etcd.Action) error {
	switch a := a.(type) {
	case etcd.AddLearner:
		_, err := client.MemberAddAsLearner(ctx, a.URLs)
		return err
	case etcd.Promote:
		return c.byID(a.Member, func(id uint64) error { _, err := client.MemberPromote(ctx, id); return err })
	case etcd.Remove:
		return c.byID(a.Member, func(id uint64) error { _, err := client.MemberRemove(ctx, id); return err })
	case etcd.SetURLs:
		return c.byID(a.Member, func(id uint64) error { _, err := client.MemberUpdate(ctx, id, a.URLs); return err })
	case etcd.MoveLeader:
		return c.byID(a.Member, func(id uint64) error { return c.moveLeader(ctx, id) })
	case etcd.AllowDowngrade:
		what := clientv3.DowngradeEnable
		if a.Version == "" {
			what = clientv3.DowngradeCancel
		}
		_, err := client.Downgrade(ctx, what, a.Version)
		return err
	}
	return fmt.Errorf("%T is not a membership change", a)
}

func (c *Cluster) byID(member string, do func(uint64) error) error {
	id, err := strconv.ParseUint(member, 16, 64)
	if err != nil {
		return fmt.Errorf("the identifier of a member: %w", err)
	}
	return do(id)
}

// moveLeader asks the leader itself, as etcd requires.
func (c *Cluster) moveLeader(ctx context.Context, to uint64) error {
	for _, a := range c.voters {
		if a.status.Leader == a.status.Header.MemberId {
			_, err := a.client.MoveLeader(ctx, to)
			return err
		}
	}
	return fault.New(fault.NotYet, "etcd's leader does not respond")
}

// Snapshot writes the current data, followed by their SHA-256.
func (c *Cluster) Snapshot(ctx context.Context, w io.Writer) (backup.Origin, error) {
	if len(c.voters) == 0 {
		return backup.Origin{}, fault.New(fault.NotYet, "take a snapshot: no member responds")
	}
	from := c.voters[0]
	for _, a := range c.voters {
		if a.peer.ID == c.Self {
			from = a
		}
	}
	failed := func(err error) (backup.Origin, error) {
		return backup.Origin{}, fmt.Errorf("take a snapshot at %s: %w", from.peer.ID, err)
	}
	// a linearizable read brings the member up to date first
	all, err := count(ctx, from.client)
	if err != nil {
		return failed(err)
	}
	system, err := from.client.Get(ctx, snapshot.ClusterKey)
	if err != nil {
		return failed(err)
	}
	r, err := from.client.Snapshot(ctx)
	if err != nil {
		return failed(err)
	}
	_, err = io.Copy(w, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return failed(err)
	}
	out := backup.Origin{EtcdVersion: from.status.Version, Revision: all.Header.Revision, Keys: all.Count}
	if len(system.Kvs) > 0 {
		out.Cluster = snapshot.UID(system.Kvs[0].Value)
	}
	return out, nil
}

// Close closes every connection.
func (c *Cluster) Close() {
	for _, client := range c.clients {
		_ = client.Close() // no request is in progress
	}
	c.clients = nil
}

// count returns the number of keys and the revision, by a linearizable read.
func count(ctx context.Context, client *clientv3.Client) (*clientv3.GetResponse, error) {
	return client.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly())
}

func memberID(id uint64) string { return strconv.FormatUint(id, 16) }
