package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd/backup"
	"kops.local/kops/internal/node/etcd/peer"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
)

const (
	// rootfs is where a container has the files of its machine.
	rootfs = "/rootfs"
	// local is the volume provider of clusters whose machines are of one host, onAWS
	// that of AWS.
	local, onAWS = "local", "aws"
	// longestLabel is that of a host name between two dots, in bytes (RFC 1035).
	longestLabel = 63
)

// place is who this peer is, and where.
type place struct {
	id, dir, address string
	host             string // name or address for URLs
}

// host is a path on the machine as this program sees it.
func (o *options) host(path string) string {
	if o.containerized {
		return filepath.Join(rootfs, path)
	}
	return path
}

func (o *options) place(ctx context.Context) (place, error) {
	p, err := o.disk(ctx)
	if err != nil {
		return place{}, err
	}
	p.id, p.address = cmp.Or(o.peerID, p.id), cmp.Or(o.address, p.address)
	if p.id == "" {
		if p.id, err = myID(p.dir, o.cluster); err != nil {
			return place{}, err
		}
	}
	if p.address == "" {
		if p.address, err = o.ownAddress(); err != nil {
			return place{}, err
		}
	}
	p.host = p.address
	if o.dnsSuffix != "" {
		p.host = p.id + o.dnsSuffix
	} else if strings.Contains(p.host, ":") {
		p.host = "[" + p.host + "]"
	}
	if label, _, _ := strings.Cut(p.host, "."); o.dnsSuffix != "" && len(label) > longestLabel {
		return place{}, fault.Wrap(fault.Permanent, fmt.Errorf("the name of this peer, %s, is longer than the %d letters that a host name may have", label, longestLabel),
			"use a shorter name for the cluster, or for the group of this machine")
	}
	return p, nil
}

// disk finds the member's folder, and the peer's name and address as its volume gives
// them, which may be empty.
func (o *options) disk(ctx context.Context) (place, error) {
	switch o.volumeProvider {
	case "":
		return place{dir: cmp.Or(o.dataDir, o.host("/var/lib/"+o.cluster))}, nil
	case "external":
		dir, err := findDisk(o.host(o.disks), o.volumeTags)
		return place{id: filepath.Base(dir), dir: dir}, err
	case local:
		dir, err := findDisk(o.host(o.disks), o.volumeTags)
		if err != nil {
			return place{}, err
		}
		// The name of a host's label: that of the cluster, which the tag holds, has dots.
		return place{id: o.cluster + "-" + strings.TrimPrefix(filepath.Base(dir), o.volumeTags[0]), dir: dir}, nil
	case onAWS:
		return o.cloudDisk(ctx)
	}
	return place{}, fault.Wrap(fault.Permanent, fmt.Errorf("the volume provider %q is not known", o.volumeProvider),
		"use aws, local, external, or no volume provider and --data-dir")
}

// name puts the host's name into URLs.
func (p place) name(urls []string) []string {
	out := make([]string, len(urls))
	for i, u := range urls {
		out[i] = strings.ReplaceAll(u, "__name__", p.host)
	}
	return out
}

// findDisk returns the one folder whose name starts with the tag.
func findDisk(dir string, tags []string) (string, error) {
	if len(tags) != 1 {
		return "", fmt.Errorf("the volume provider needs one --volume-tag, not %d", len(tags))
	}
	found, err := filepath.Glob(filepath.Join(dir, strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`).Replace(tags[0])+"*"))
	if err != nil {
		return "", fmt.Errorf("find the volume %s: %w", tags[0], err)
	}
	if len(found) != 1 {
		return "", fault.Wrap(fault.NotYet, fmt.Errorf("%d folders of %s start with %s; there has to be one", len(found), dir, tags[0]),
			"make the folder of this machine's member, or remove those of others")
	}
	return found[0], nil
}

// myID returns the name in DIR/myid, which is made up when there is none.
func myID(dir, cluster string) (string, error) {
	path := filepath.Join(dir, "myid")
	text, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(text))) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the name of this peer: %w", err)
	}
	raw := make([]byte, 4)
	_, _ = rand.Read(raw) // it never fails
	id := cluster + "-" + hex.EncodeToString(raw)
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = os.WriteFile(path, []byte(id+"\n"), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("write the name of this peer: %w", err)
	}
	return id, nil
}

// ownAddress is the address at which others reach this machine. That of a local
// machine is registered; which of its interfaces is the first says nothing there,
// as it has those of its pods, too.
func (o *options) ownAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("find the address of this machine: %w", err)
	}
	if o.volumeProvider != local {
		return reachable(all, o.networkCIDR)
	}
	known, err := o.registry().Addresses()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && slices.Contains(known, n.IP.String()) {
			return n.IP.String(), nil
		}
	}
	err = errors.Join(fmt.Errorf("no address of this machine is among those of the control plane in %s: %s", o.host(o.machines), strings.Join(known, ", ")), err)
	return "", fault.Wrap(fault.NotYet, err, "register the machine, or give its address with --address")
}

// reachable is the first address that others can reach, within a network if one is given.
func reachable(all []net.Addr, network string) (string, error) {
	var within *net.IPNet
	if network != "" {
		_, n, err := net.ParseCIDR(network)
		if err != nil {
			return "", fmt.Errorf("--network-cidr: %w", err)
		}
		within = n
	}
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if ok && n.IP.IsGlobalUnicast() && (within == nil || within.Contains(n.IP)) {
			return n.IP.String(), nil
		}
	}
	return "", errors.New("this machine has no address that others could reach; give it with --address")
}

// registry is the machines of a local cluster.
func (o *options) registry() peer.Machines {
	return peer.Machines{Dir: o.host(o.machines), Port: strconv.Itoa(o.grpcPort)}
}

// archive opens the back-up store.
func (o *options) archive(ctx context.Context) (*backup.Archive, error) {
	url := o.backupStore
	if path, ok := strings.CutPrefix(url, "file://"); ok {
		url = "file://" + o.host(path)
	}
	s, err := store.Backends{store.Folders(), s3.Backend(o.s3())}.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return &backup.Archive{Store: s, Retention: o.retention, Now: time.Now}, nil
}

// s3 says how buckets are reached: as S3_ENDPOINT says, or as AWS itself.
func (o *options) s3() s3.Config {
	env := o.environment
	c := s3.Config{Endpoint: env["S3_ENDPOINT"], Region: env["S3_REGION"], ACL: strings.TrimSpace(env["KOPS_STATE_S3_ACL"])}
	if c.Endpoint != "" {
		c.Credentials = credentials.NewStaticCredentialsProvider(env["S3_ACCESS_KEY_ID"], env["S3_SECRET_ACCESS_KEY"], "")
		return c
	}
	c.Endpoint, c.Credentials = env["AWS_ENDPOINT_URL"], aws.NewCredentialsCache(machineCredentials{})
	if c.Region == "" {
		c.Region = env["AWS_REGION"]
	}
	return c
}

// machineCredentials ask the SDK's chain, which ends with the machine's role, when they are first needed.
type machineCredentials struct{}

func (machineCredentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	cfg, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("find credentials for the back-up store: %w", err)
	}
	return cfg.Credentials.Retrieve(ctx)
}
