package live

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
)

// defragmentTime is how long the defragmentation of one database may take: some
// seconds per GiB, unless the disk is slow.
const defragmentTime = 5 * time.Minute

// Defragment defragments the database of a member, which does not respond meanwhile,
// and returns its size before and after, in bytes. With compact it first removes all
// revisions but the last.
func (c *Cluster) Defragment(ctx context.Context, member string, compact bool) (before, after int64, err error) {
	i := slices.IndexFunc(c.voters, func(a answer) bool { return memberID(a.status.Header.MemberId) == member })
	if i < 0 {
		return 0, 0, fault.New(fault.NotYet, "defragment the database of member %s: it does not respond", member)
	}
	a := c.voters[i]
	ctx, cancel := context.WithTimeout(ctx, defragmentTime)
	defer cancel()
	at := a.client.Endpoints()[0]
	failed := func(err error) (int64, int64, error) {
		return 0, 0, fmt.Errorf("defragment the database of %s: %w", a.peer.ID, err)
	}
	status, err := a.client.Status(ctx, at)
	if err != nil {
		return failed(err)
	}
	before = status.DbSize
	if compact {
		if err := compactAll(ctx, a.client); err != nil {
			return failed(err)
		}
	}
	if _, err = a.client.Defragment(ctx, at); err != nil {
		return failed(err)
	}
	if status, err = a.client.Status(ctx, at); err != nil {
		return failed(err)
	}
	return before, status.DbSize, nil
}

// compactAll removes every revision but the last.
func compactAll(ctx context.Context, client *clientv3.Client) error {
	now, err := count(ctx, client)
	if err == nil {
		_, err = client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	}
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil
	}
	return err
}

// Disarm clears all alarms, and returns them as texts. With compare it first makes sure
// that all members have the same data; if they do not, the error is of class
// fault.Permanent.
func (c *Cluster) Disarm(ctx context.Context, compare bool) ([]string, error) {
	if len(c.voters) == 0 {
		return nil, fault.New(fault.NotYet, "disarm the alarms: no member responds")
	}
	ctx, cancel := context.WithTimeout(ctx, defragmentTime)
	defer cancel()
	if compare {
		if err := c.compare(ctx); err != nil {
			return nil, err
		}
	}
	client := c.voters[0].client
	list, err := client.AlarmList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the alarms: %w", err)
	}
	var ended []string
	for _, a := range list.Alarms {
		if _, err := client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(a)); err != nil {
			return ended, fmt.Errorf("disarm the alarm %s: %w", a.Alarm, err)
		}
		ended = append(ended, fmt.Sprintf("%s of %s", a.Alarm, c.nameOf(a.MemberID)))
	}
	return ended, nil
}

func (c *Cluster) nameOf(id uint64) string {
	for _, a := range c.voters {
		if a.status.Header.MemberId == id {
			return a.peer.ID
		}
	}
	return memberID(id)
}

// compare checks that all members have the same data at one revision, which all have reached.
func (c *Cluster) compare(ctx context.Context) error {
	at, sums := int64(0), map[uint32][]string{}
	for _, a := range c.voters { // a linearizable read brings a member up to date
		now, err := count(ctx, a.client)
		if err != nil {
			return fmt.Errorf("compare the members: %w", err)
		}
		if at == 0 {
			at = now.Header.Revision
		}
	}
	for _, a := range c.voters {
		sum, err := a.client.HashKV(ctx, a.client.Endpoints()[0], at)
		if err != nil {
			return fmt.Errorf("compare the member %s with the others: %w", a.peer.ID, err)
		}
		sums[sum.Hash] = append(sums[sum.Hash], a.peer.ID)
	}
	if len(sums) == 1 {
		return nil
	}
	var parts []string
	for _, names := range sums {
		parts = append(parts, strings.Join(names, "+"))
	}
	slices.Sort(parts)
	return fault.New(fault.Permanent, "the members do not have the same data: %s differ", strings.Join(parts, " and "))
}

// alarms adds the raised alarms to the members; it queries them only if a member reports errors.
func (c *Cluster) alarms(ctx context.Context, members []etcd.Member) {
	if !slices.ContainsFunc(members, func(m etcd.Member) bool { return len(m.Errors) > 0 }) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	list, err := c.voters[0].client.AlarmList(ctx)
	if err != nil {
		return // the members' errors are just as informative
	}
	for _, a := range list.Alarms {
		for i, m := range members {
			if m.ID == memberID(a.MemberID) && a.Alarm != pb.AlarmType_NONE {
				members[i].Alarms = append(members[i].Alarms, a.Alarm.String())
			}
		}
	}
}

// Connect opens a separate connection to the member at a peer.
func Connect(own *tls.Config, p etcd.Peer) (*clientv3.Client, error) {
	c := Cluster{TLS: own}
	client, _, err := c.connect(p)
	return client, err
}
