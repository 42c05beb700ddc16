package metal

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/metal/onhost"
	"kops.local/kops/internal/platform/ssh"
)

// client connects to the hosts of one cluster. Connections stay open until the program exits.
type client struct {
	ssh       ssh.Options
	inventory []*api.Host
	// root is the path at which the hosts' file systems begin: "", except in tests.
	root string

	mu   sync.Mutex
	open map[string]*ssh.Machine // by host name
}

func newClient(o ssh.Options, inventory []*api.Host) *client {
	return &client{ssh: o, inventory: inventory, open: map[string]*ssh.Machine{}}
}

// host returns a host of the inventory.
func (c *client) host(name string) (*api.Host, error) {
	for _, h := range c.inventory {
		if h.Name == name {
			return h, nil
		}
	}
	return nil, fault.New(fault.Gone, "the host %s is not in the inventory", name)
}

// login returns how to log in to a host.
func login(h *api.Host) (ssh.Target, error) {
	user, address, ok := strings.Cut(h.Annotations[api.AnnotationSSH], "@")
	key := h.Annotations[api.AnnotationSSHKey]
	if !ok || key == "" {
		return ssh.Target{}, fault.Wrap(fault.Permanent, fmt.Errorf("the host %s has no SSH address or no host key", h.Name), "enroll it again")
	}
	return ssh.Target{Address: address, User: user, HostKey: key}, nil
}

// machine returns a connection to a host, reusing an open one.
func (c *client) machine(ctx context.Context, name string) (*ssh.Machine, error) {
	c.mu.Lock()
	m := c.open[name]
	c.mu.Unlock()
	if m != nil {
		return m, nil
	}
	h, err := c.host(name)
	if err != nil {
		return nil, err
	}
	at, err := login(h)
	if err != nil {
		return nil, err
	}
	if m, err = c.ssh.Dial(ctx, at); err != nil {
		return nil, fault.Wrap(fault.Of(err), err, remedyOf(err, name))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[name] = m
	return m, nil
}

// remedyOf returns what to do about a host that cannot be logged in to.
func remedyOf(err error, name string) string {
	lost := "if the host is lost for good: kops delete host " + name + " --lost --yes"
	if r := fault.Remedy(err); r != "" {
		return r + "; " + lost
	}
	return lost
}

// run runs a script on a host; $root is the root of the file system. A closed connection is
// reopened if nothing was sent on it.
func (c *client) run(ctx context.Context, name, script string, in io.Reader) ([]byte, error) {
	m, err := c.machine(ctx, name)
	if err != nil {
		return nil, err
	}
	out, err := m.Run(ctx, "set -eu; umask 077; root="+ssh.Quote(c.root)+"\n"+script, in, answerSize)
	if fault.Is(err, fault.NotYet) {
		c.mu.Lock()
		delete(c.open, name)
		c.mu.Unlock()
	}
	return out, err
}

// record describes what a host was set up with.
type record struct {
	Cluster string `json:"cluster"`
	Group   string `json:"group"`
	// Boot and State are digests of the boot script and of the control plane's files; Setup is
	// the digest of the script without the hash of the node configuration.
	Boot  string `json:"boot"`
	Setup string `json:"setup,omitempty"`
	State string `json:"state,omitempty"`
	// Folder is where those files are.
	Folder string   `json:"folder,omitempty"`
	Peers  []string `json:"peers,omitempty"`
	Home   string   `json:"home,omitempty"`
}

// read reads the record of a host; ok is false if there is none.
func (c *client) read(ctx context.Context, name string) (r record, ok bool, err error) {
	out, err := c.run(ctx, name, `[ ! -e "$root`+onhost.Record+`" ] || cat "$root`+onhost.Record+`"`, nil)
	if err != nil || len(bytes.TrimSpace(out)) == 0 {
		return r, false, err
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, false, fmt.Errorf("read the record of the host %s: %w", name, err)
	}
	return r, true, nil
}

// write writes a file on a host, atomically replacing an existing one.
func (c *client) write(ctx context.Context, name, file string, data []byte) error {
	_, err := c.run(ctx, name, `f="$root`+file+`"; mkdir -p "$(dirname "$f")"; cat > "$f.new"; mv "$f.new" "$f"`, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("write %s on the host %s: %w", file, name, err)
	}
	return nil
}

func (c *client) writeJSON(ctx context.Context, name, file string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.write(ctx, name, file, append(data, '\n'))
}

//go:embed boot.sh
var bootScript string

// boot runs the boot script of a host; if it fails, the error includes the host's
// console. It waits for a control-plane member that was ready before.
func (c *client) boot(ctx context.Context, name string, script string) error {
	if err := c.write(ctx, name, onhost.Boot, []byte(script)); err != nil {
		return err
	}
	if _, err := c.run(ctx, name, bootScript, nil); err != nil {
		return fmt.Errorf("boot the host %s: %w", name, err)
	}
	return nil
}

//go:embed reset.sh
var resetScript string

// reset stops and removes everything that a cluster runs on a host. The host's own key is kept.
func (c *client) reset(ctx context.Context, cluster, name string) error {
	r, ok, err := c.read(ctx, name)
	if err != nil || !ok {
		return err
	}
	if r.Cluster != cluster {
		return foreignError(name, r.Cluster)
	}
	if _, err := c.run(ctx, name, "cluster="+ssh.Quote(cluster)+" folder="+ssh.Quote(r.Folder)+"\n"+resetScript, nil); err != nil {
		return fmt.Errorf("reset the host %s: %w", name, err)
	}
	return nil
}

// foreignError returns an error for a host of another cluster.
func foreignError(name, cluster string) error {
	return fault.Wrap(fault.Permanent, errors.New("the host "+name+" belongs to the cluster "+cluster), "release it there: kops delete host "+name+" --name "+cluster)
}
