// Package ssh reaches machines of a user that take commands over SSH (RFC 4251). A machine is
// trusted only by its host key, which must be known beforehand: from a record, from its
// fingerprint, or from the user's known_hosts.
//
// It must not know what is done on the machines, nor read the environment.
package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"kops.local/kops/internal/engine/fault"
)

// dialTime limits how long connecting to a machine and logging in may take.
const dialTime = 15 * time.Second

// Options identify the user. The zero value has no keys and knows no machine.
type Options struct {
	// Agent is the socket of the user's agent; empty: there is no agent.
	Agent string
	// Keys are private key files without a passphrase; files that do not exist are ignored.
	Keys []string
	// Known are known_hosts(5) files; files that do not exist are ignored.
	Known []string
}

// Environment returns the options that ssh(1) would use: the agent, and the usual files in the home
// folder. KOPS_SSH_KEY names other keys.
func Environment(env func(string) string) Options {
	o := Options{Agent: env("SSH_AUTH_SOCK"), Keys: filepath.SplitList(env("KOPS_SSH_KEY")), Known: []string{"/etc/ssh/ssh_known_hosts"}}
	if home := env("HOME"); home != "" {
		folder := filepath.Join(home, ".ssh")
		o.Known = append(o.Known, filepath.Join(folder, "known_hosts"))
		if len(o.Keys) == 0 {
			o.Keys = []string{filepath.Join(folder, "id_ed25519"), filepath.Join(folder, "id_ecdsa"), filepath.Join(folder, "id_rsa")}
		}
	}
	return o
}

// Target is a machine, and how its identity is checked.
type Target struct {
	// Address is its name or IP address, with the port: 10.0.0.7:22, [fd00::7]:22.
	Address string
	// User is the login user. A user other than root becomes root with sudo, without a password.
	User string
	// HostKey is the machine's key in authorized_keys(5) format; Fingerprint is the fingerprint of
	// its key (SHA256:…). If both are empty, the known_hosts files must list it.
	HostKey, Fingerprint string
}

// Machine is a connection to a machine. Its methods may be called concurrently.
type Machine struct {
	client *ssh.Client
	user   string
	key    ssh.PublicKey
}

// Dial logs in to a machine. The error has class fault.NotYet while the machine does not answer,
// and fault.Denied if its host key does not match or it refuses the user.
func (o Options) Dial(ctx context.Context, t Target) (*Machine, error) {
	m, err := o.dial(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("log in to %s@%s: %w", t.User, t.Address, err)
	}
	return m, nil
}

func (o Options) dial(ctx context.Context, t Target) (*Machine, error) {
	signers, done, err := o.signers()
	if err != nil {
		return nil, err
	}
	defer done()
	check, algorithms, err := o.hostKeyCallback(t)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(limited, "tcp", t.Address)
	if err != nil {
		return nil, fault.Wrap(fault.NotYet, err, "check that the machine is running and accepts connections at this address")
	}
	stop := context.AfterFunc(limited, func() { _ = conn.Close() }) // which aborts the handshake
	defer stop()
	m := &Machine{user: t.User}
	c, channels, requests, err := ssh.NewClientConn(conn, t.Address, &ssh.ClientConfig{
		User: t.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signers...)}, HostKeyAlgorithms: algorithms,
		HostKeyCallback: func(host string, remote net.Addr, key ssh.PublicKey) error {
			m.key = key
			return check(host, remote, key)
		},
	})
	if err != nil {
		_ = conn.Close()      // no longer needed
		if ctx.Err() != nil { // the caller cancelled, which broke the connection
			return nil, context.Cause(ctx)
		}
		return nil, handshakeError(limited, t, m.key, err)
	}
	m.client = ssh.NewClient(c, channels, requests)
	return m, nil
}

// handshakeError classifies the error of a handshake.
func handshakeError(ctx context.Context, t Target, key ssh.PublicKey, err error) error {
	var stranger *unknownHostError
	switch {
	case errors.As(err, &stranger):
		return fault.Wrap(fault.Denied, stranger, stranger.remedy())
	case ctx.Err() != nil || key == nil:
		return fault.Wrap(fault.NotYet, err, "")
	}
	return fault.Wrap(fault.Denied, err, "check that "+t.User+" can log in with one of your keys: ssh "+t.User+"@"+hostPart(t.Address))
}

// signers returns the keys of the agent and of the files. The caller must call done after the
// handshake.
func (o Options) signers() (all []ssh.Signer, done func(), err error) {
	done = func() {}
	for _, file := range o.Keys {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, done, fmt.Errorf("read an SSH key: %w", err)
		}
		s, err := ssh.ParsePrivateKey(text)
		if missing := new(ssh.PassphraseMissingError); errors.As(err, &missing) {
			continue // the agent may have it
		}
		if err != nil {
			return nil, done, fmt.Errorf("read the SSH key %s: %w", file, err)
		}
		all = append(all, s)
	}
	if o.Agent != "" {
		conn, err := net.Dial("unix", o.Agent)
		if err != nil && len(all) > 0 {
			return all, done, nil // one of the files may be enough
		}
		if err != nil {
			return nil, done, fmt.Errorf("ask the SSH agent: %w", err)
		}
		done = func() { _ = conn.Close() } // nothing was written
		held, err := agent.NewClient(conn).Signers()
		if err != nil {
			done()
			return nil, func() {}, fmt.Errorf("ask the SSH agent for its keys: %w", err)
		}
		all = append(all, held...)
	}
	if len(all) == 0 {
		return nil, done, fault.Wrap(fault.Permanent, errors.New("there is no SSH key to log in with"),
			"add one to the agent (ssh-add), or give the file of a key without a passphrase")
	}
	return all, done, nil
}

// HostKey returns the machine's key in authorized_keys(5) format.
func (m *Machine) HostKey() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(m.key)))
}

// Close closes the connection.
func (m *Machine) Close() error { return m.client.Close() }

// Run runs a sh(1) script as root and returns its standard output. in is its standard input, and
// may be nil; SSH_CONNECTION is set as sshd does. The error of a failed script includes the end of
// its standard error. A script that writes more than most bytes is stopped: that is an error, and
// the first most bytes are returned with it.
func (m *Machine) Run(ctx context.Context, script string, in io.Reader, most int) ([]byte, error) {
	s, err := m.client.NewSession()
	if err != nil {
		return nil, fault.Wrap(fault.NotYet, fmt.Errorf("run a command: %w", err), "")
	}
	defer s.Close() //nolint:errcheck // it has ended by itself
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	out, messages := &headBuffer{most: most, full: func() { _ = s.Close() }}, &tailBuffer{}
	s.Stdin, s.Stdout, s.Stderr = in, out, messages
	command := "sh -c " + Quote(script)
	if m.user != "root" {
		command = `sudo -n env SSH_CONNECTION="$SSH_CONNECTION" ` + command
	}
	if err := s.Run(command); err != nil {
		if ctx.Err() != nil {
			return out.text, ctx.Err()
		}
		if out.truncated {
			return out.text, fault.New(fault.Permanent, "the command wrote more than %d bytes and was stopped", most)
		}
		if exit := (*ssh.ExitError)(nil); !errors.As(err, &exit) { // the connection was lost
			return out.text, fault.Wrap(fault.NotYet, err, "")
		}
		return out.text, fmt.Errorf("%w: %s", err, tail(string(messages.text)))
	}
	return out.text, nil
}

// headBuffer keeps the first bytes of its input, and calls full when there is more.
type headBuffer struct {
	most      int
	full      func()
	text      []byte
	truncated bool
}

func (h *headBuffer) Write(p []byte) (int, error) {
	if room := h.most - len(h.text); len(p) > room {
		h.text, h.truncated = append(h.text, p[:room]...), true
		h.full()
		return room, io.ErrShortWrite
	}
	h.text = append(h.text, p...)
	return len(p), nil
}

// tailBuffer keeps the last bytes of what is written.
type tailBuffer struct{ text []byte }

func (e *tailBuffer) Write(p []byte) (int, error) {
	const most = 4 << 10
	e.text = append(e.text, p[max(0, len(p)-most):]...)
	e.text = e.text[max(0, len(e.text)-most):]
	return len(p), nil
}

// tail returns the end of a text, for an error message.
func tail(s string) string {
	const most = 200
	s = strings.TrimSpace(s)
	if len(s) > most {
		s = "…" + s[len(s)-most:]
	}
	return strings.ReplaceAll(s, "\n", "; ")
}

// Quote quotes a text as one word of sh(1).
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// hostPart returns an address without its port.
func hostPart(address string) string {
	h, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return h
}
