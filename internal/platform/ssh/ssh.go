// Package ssh reaches machines of a user that take commands over SSH (RFC 4251). A
// machine is believed by its host key only, which is known before: from a record, from
// its fingerprint, or from the user's known_hosts.
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

// dialTime is how long a machine may take to answer and to let the user in.
const dialTime = 15 * time.Second

// Options say who the user is. The zero value has no keys and knows no machine.
type Options struct {
	// Agent is the socket of the user's agent; empty: there is none.
	Agent string
	// Keys are files of private keys without passphrase; a file that does not exist is left out.
	Keys []string
	// Known are files of known_hosts(5), of which some may not exist.
	Known []string
}

// Environment says who the user is as ssh(1) finds it out: by the agent, and the usual files
// of the home folder; KOPS_SSH_KEY names other keys.
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

// Target is a machine, and how it is known.
type Target struct {
	// Address is its name or IP address, with the port: 10.0.0.7:22, [fd00::7]:22.
	Address string
	// User is who logs in. One other than root becomes root by sudo without a password.
	User string
	// HostKey is the machine's key, in the form of authorized_keys(5); Fingerprint is the
	// fingerprint of its key (SHA256:…). If both are empty the files of known hosts must have it.
	HostKey, Fingerprint string
}

// Machine is a connection to a machine. Its methods may be used at once.
type Machine struct {
	client *ssh.Client
	user   string
	key    ssh.PublicKey
}

// Dial logs in to a machine. An error has class fault.NotYet while the machine does not
// answer, and fault.Denied when it is not the one that is known or refuses the user.
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
	check, algorithms, err := o.known(t)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.Address)
	if err != nil {
		return nil, fault.Wrap(fault.NotYet, err, "see whether the machine runs and takes connections at this address")
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // which ends the handshake
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
		_ = conn.Close() // of no use any more
		return nil, failure(ctx, t, m.key, err)
	}
	m.client = ssh.NewClient(c, channels, requests)
	return m, nil
}

// failure classifies the error of a handshake.
func failure(ctx context.Context, t Target, key ssh.PublicKey, err error) error {
	var stranger *strangerError
	switch {
	case errors.As(err, &stranger):
		return fault.Wrap(fault.Denied, stranger, stranger.remedy())
	case ctx.Err() != nil || key == nil:
		return fault.Wrap(fault.NotYet, err, "")
	}
	return fault.Wrap(fault.Denied, err, "see whether "+t.User+" may log in with a key of yours, such as: ssh "+t.User+"@"+host(t.Address))
}

// signers returns the keys of the agent and of the files. The caller must call done when the
// handshake is over.
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
			return all, done, nil // one of the files may do
		}
		if err != nil {
			return nil, done, fmt.Errorf("ask the SSH agent: %w", err)
		}
		done = func() { _ = conn.Close() } // it was only asked
		held, err := agent.NewClient(conn).Signers()
		if err != nil {
			done()
			return nil, func() {}, fmt.Errorf("ask the SSH agent for its keys: %w", err)
		}
		all = append(all, held...)
	}
	if len(all) == 0 {
		return nil, done, fault.Wrap(fault.Permanent, errors.New("there is no SSH key to log in with"),
			"add one to the agent (ssh-add), or name the file of one without a passphrase")
	}
	return all, done, nil
}

// HostKey is the machine's key, in the form of authorized_keys(5).
func (m *Machine) HostKey() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(m.key)))
}

// Close ends the connection.
func (m *Machine) Close() error { return m.client.Close() }

// Run runs a script of sh(1) as root and returns what it wrote. in is its standard
// input, and may be nil; SSH_CONNECTION is set as sshd does. The error of a failed script
// holds the end of its messages. A script that writes more than most bytes is ended: that
// is an error, and the first most bytes are returned with it.
func (m *Machine) Run(ctx context.Context, script string, in io.Reader, most int) ([]byte, error) {
	s, err := m.client.NewSession()
	if err != nil {
		return nil, fault.Wrap(fault.NotYet, fmt.Errorf("run a command: %w", err), "")
	}
	defer s.Close() //nolint:errcheck // it has ended by itself
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	out, messages := &head{most: most, full: func() { _ = s.Close() }}, &end{}
	s.Stdin, s.Stdout, s.Stderr = in, out, messages
	command := "sh -c " + Quote(script)
	if m.user != "root" {
		command = `sudo -n env SSH_CONNECTION="$SSH_CONNECTION" ` + command
	}
	if err := s.Run(command); err != nil {
		if ctx.Err() != nil {
			return out.text, ctx.Err()
		}
		if out.over {
			return out.text, fault.New(fault.Permanent, "the machine writes more than %d bytes, and was stopped", most)
		}
		if exit := (*ssh.ExitError)(nil); !errors.As(err, &exit) { // the connection ended
			return out.text, fault.Wrap(fault.NotYet, err, "")
		}
		return out.text, fmt.Errorf("%w: %s", err, tail(string(messages.text)))
	}
	return out.text, nil
}

// head keeps the first bytes of its input, and calls full once there are more.
type head struct {
	most int
	full func()
	text []byte
	over bool
}

func (h *head) Write(p []byte) (int, error) {
	if room := h.most - len(h.text); len(p) > room {
		h.text, h.over = append(h.text, p[:room]...), true
		h.full()
		return room, io.ErrShortWrite
	}
	h.text = append(h.text, p...)
	return len(p), nil
}

// end keeps the last bytes of what is written.
type end struct{ text []byte }

func (e *end) Write(p []byte) (int, error) {
	const most = 4 << 10
	e.text = append(e.text, p[max(0, len(p)-most):]...)
	e.text = e.text[max(0, len(e.text)-most):]
	return len(p), nil
}

// tail is the end of a text, for an error.
func tail(s string) string {
	const most = 200
	s = strings.TrimSpace(s)
	if len(s) > most {
		s = "…" + s[len(s)-most:]
	}
	return strings.ReplaceAll(s, "\n", "; ")
}

// Quote writes a text as one word of sh(1).
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// host is an address without its port.
func host(address string) string {
	h, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return h
}
