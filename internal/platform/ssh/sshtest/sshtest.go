// Package sshtest is an SSH server for tests: every command runs in a shell as this process's user,
// with additional environment variables.
//
// It must not know what runs.
package sshtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Server is a machine that takes commands.
type Server struct {
	Address string
	// HostKey is the machine's host key, Client the file with the key that may log in.
	HostKey ssh.PublicKey
	Client  string
	// Path is prepended to the PATH of commands.
	Path string
}

// Start runs a server until the test ends, with bin as its Path.
func Start(t testing.TB, bin string, env ...string) *Server {
	t.Helper()
	_, hostKey, err := ed25519.GenerateKey(rand.Reader)
	ok(t, err)
	host, err := ssh.NewSignerFromKey(hostKey)
	ok(t, err)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	ok(t, err)
	client, err := ssh.NewPublicKey(public)
	ok(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	ok(t, err)
	file := filepath.Join(t.TempDir(), "id_ed25519")
	ok(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(client.Marshal()) {
			return nil, errors.New("not the key of the test")
		}
		return nil, nil
	}}
	config.AddHostKey(host)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	t.Cleanup(func() { _ = l.Close() })
	s := &Server{Address: l.Addr().String(), HostKey: host.PublicKey(), Client: file, Path: bin}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn, config, env)
		}
	}()
	return s
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *Server) serve(conn net.Conn, config *ssh.ServerConfig, env []string) {
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		if c.ChannelType() != "session" {
			_ = c.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go s.session(channel, requests, env)
	}
}

func (s *Server) session(channel ssh.Channel, requests <-chan *ssh.Request, env []string) {
	for r := range requests {
		var command struct{ Text string }
		if r.Type != "exec" || ssh.Unmarshal(r.Payload, &command) != nil {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		c := exec.Command("sh", "-c", command.Text)
		c.Env = append(os.Environ(), append([]string{"PATH=" + s.Path + ":" + os.Getenv("PATH")}, env...)...)
		c.Stdin, c.Stdout, c.Stderr = channel, channel, channel.Stderr()
		status := struct{ Code uint32 }{}
		if err := c.Run(); err != nil {
			status.Code = 255
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				status.Code = uint32(exit.ExitCode()) //nolint:gosec // small
			}
		}
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
		_ = channel.Close()
	}
}
